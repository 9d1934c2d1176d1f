#include "resample/border.h"

#include "kernels/kernels.h"

namespace stoker {

void BorderPainter::run(const PlanarImage& tile, const Border& border, int height, int width, RowSink& sink) {
    const int plane = plane_stride(width);
    line_.resize(3 * static_cast<std::size_t>(plane) + kRowSlack);
    for (int y = 0; y < height; ++y) {
        for (int c = 0; c < 3; ++c) {
            const std::uint8_t* from = tile.row(border.rows[y]) + static_cast<std::ptrdiff_t>(c) * tile.plane();
            std::uint8_t* to = line_.data() + static_cast<std::ptrdiff_t>(c) * plane;
            for (int x = 0; x < width; ++x) to[x] = from[border.columns[x]];
        }
        sink.row(y, line_.data(), plane);
    }
}

}  // namespace stoker
