// Pixels of an output picked from a image.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/planar_image.h"
#include "pixels/row_sink.h"

namespace stoker {

// Each pixel of the output is that of a picture which its centre falls into: see stoker.augment.resample.pick.
class NearestSampler {
  public:
    // `matrix`, row-major, leads from (x, y, 1) in the output to the image; around that there is `fill`.
    void run(const PlanarImage& image, const double* matrix, int height, int width, const std::uint8_t* fill,
             RowSink& sink);

  private:
    template <bool affine>
    void locate(const PlanarImage& image, const double* matrix, double y);
    void gather(const PlanarImage& image, const std::uint8_t* fill, int plane);

    std::vector<std::int64_t> offsets_;  // of a row's pixels, from the picture's first; -1 for none
    std::vector<std::uint8_t> line_;
};

}  // namespace stoker
