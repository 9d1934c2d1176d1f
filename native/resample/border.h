// Padding that continues an image: see stoker.augment.extras.Border.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/planar_image.h"
#include "pixels/row_sink.h"

namespace stoker {

// The rows and columns of a tile that the pixels of an output show, within it.
struct Border {
    const std::int32_t* rows = nullptr;  // null: there is none
    const std::int32_t* columns = nullptr;
};

class BorderPainter {
  public:
    void run(const PlanarImage& tile, const Border& border, int height, int width, RowSink& sink);

  private:
    std::vector<std::uint8_t> line_;
};

}  // namespace stoker
