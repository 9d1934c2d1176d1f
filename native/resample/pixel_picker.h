// Pixels of an output picked from a picture.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/planar_image.h"
#include "pixels/row_sink.h"

namespace stoker {

// Each pixel of the output is that of a picture which its centre falls into: see stoker.augment.resample.pick.
class PixelPicker {
  public:
    // `matrix`, row-major, leads from (x, y, 1) in the output to the picture; around that there is `fill`.
    void run(const PlanarImage& picture, const double* matrix, int height, int width, const std::uint8_t* fill,
             RowSink& sink);

  private:
    template <bool affine>
    void find(const PlanarImage& picture, const double* matrix, double y);
    void take(const PlanarImage& picture, const std::uint8_t* fill, int plane);

    std::vector<std::int64_t> places_;  // of a row's pixels, from the picture's first; -1 for none
    std::vector<std::uint8_t> line_;
};

}  // namespace stoker
