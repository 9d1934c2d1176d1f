// Nearest-neighbour resampling by a projective map.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/planar_image.h"
#include "pixels/row_sink.h"

namespace stoker {

// Each output pixel takes the image's pixel that its centre falls into; see stoker.augment.resampling.pick.
class NearestSampler {
  public:
    // `matrix`, 3x3, row-major, maps (x, y, 1) in the output to the image. Outside the image there is `fill`.
    void run(const PlanarImage& image, const double* matrix, int height, int width, const std::uint8_t* fill,
             RowSink& sink);

  private:
    template <bool affine>
    void locate(const PlanarImage& image, const double* matrix, double y);
    void gather(const PlanarImage& image, const std::uint8_t* fill, int plane);

    std::vector<std::int64_t> offsets_;  // of a row's pixels, from the first byte of the image; -1 outside
    std::vector<std::uint8_t> line_;
};

}  // namespace stoker
