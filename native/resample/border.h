// Padding that repeats rows and columns of an image; see stoker.augment.params.Border.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/planar_image.h"
#include "pixels/row_sink.h"

namespace stoker {

// For each row and column of the output, the row or column of the tile that it repeats.
struct Border {
    const std::int32_t* rows = nullptr;  // null if there is no border
    const std::int32_t* columns = nullptr;
};

// Copies rows and columns of a tile to the output.
class BorderPainter {
  public:
    void run(const PlanarImage& tile, const Border& border, int height, int width, RowSink& sink);

  private:
    std::vector<std::uint8_t> line_;
};

}  // namespace stoker
