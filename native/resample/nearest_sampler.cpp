#include "resample/nearest_sampler.h"

#include "kernels/kernels.h"

namespace stoker {

void NearestSampler::run(const PlanarImage& image, const double* matrix, int height, int width,
                      const std::uint8_t* fill, RowSink& sink) {
    const bool affine = matrix[6] == 0 && matrix[7] == 0 && matrix[8] == 1;
    const int plane = plane_stride(width);
    offsets_.resize(static_cast<std::size_t>(width));
    line_.resize(3 * static_cast<std::size_t>(plane) + kRowSlack);
    for (int y = 0; y < height; ++y) {
        if (affine)
            locate<true>(image, matrix, y + 0.5);
        else
            locate<false>(image, matrix, y + 0.5);
        gather(image, fill, plane);
        sink.row(y, line_.data(), plane);
    }
}

void NearestSampler::gather(const PlanarImage& image, const std::uint8_t* fill, int plane) {
    const std::uint8_t red = fill[0], green = fill[1], blue = fill[2];
    const std::uint8_t* from = image.row(0);
    const std::int64_t* offsets = offsets_.data();
    std::uint8_t* to = line_.data();
    const std::ptrdiff_t stride = image.plane(), width = static_cast<std::ptrdiff_t>(offsets_.size());
    for (std::ptrdiff_t i = 0; i < width; ++i) {
        const std::int64_t offset = offsets[i];
        if (offset < 0) {
            to[i] = red;
            to[i + plane] = green;
            to[i + 2 * plane] = blue;
        } else {
            to[i] = from[offset];
            to[i + plane] = from[offset + stride];
            to[i + 2 * plane] = from[offset + 2 * stride];
        }
    }
}

// The operations have the order of stoker.augment.resampling.apply_matrix, so that results are equal to
// the bit. A division by 1 would change nothing.
template <bool affine>
void NearestSampler::locate(const PlanarImage& image, const double* m, double y) {
    const double width = image.width(), height = image.height();
    const std::int64_t stride = 3 * image.plane();
    const double part_x = y * m[1], part_y = y * m[4], part_w = y * m[7];
    std::int64_t* offsets = offsets_.data();
    const int count = static_cast<int>(offsets_.size());
    for (int i = 0; i < count; ++i) {
        const double x = i + 0.5;
        const double w = affine ? 1 : x * m[6] + part_w + m[8];
        double column = x * m[0] + part_x + m[2], row = x * m[3] + part_y + m[5];
        if (!affine) {
            column /= w;
            row /= w;
        }
        const bool seen = w > 0 && column >= 0 && column < width && row >= 0 && row < height;
        offsets[i] = seen ? static_cast<int>(row) * stride + static_cast<int>(column) : -1;
    }
}

}  // namespace stoker
