#include "resample/resize.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace stoker {

void Span::mirror(int size) {
    std::tie(begin, end) = std::make_pair(size - end, size - begin);
    std::tie(low, high) = std::make_pair(size - high, size - low);
    reversed = !reversed;
    mirrored = size;
}

bool Span::reduce(int eighths) {
    begin = begin * eighths / 8;
    end = end * eighths / 8;
    low = (low * eighths + 4) / 8;
    high = (high * eighths + 4) / 8;
    return low < high;
}

Resize resize_of(const Parameters& parameters, Orientation orientation, Size source, Size frame) {
    const auto* dest = parameters.dest;
    const bool flip_x = parameters.flip[0], flip_y = parameters.flip[1];
    Resize resize{};
    resize.dest = {flip_y ? frame.height - dest[0] - dest[2] : dest[0],
                      flip_x ? frame.width - dest[1] - dest[3] : dest[1], dest[2], dest[3]};
    resize.x = parameters.span(1);
    resize.x.reversed = flip_x;
    resize.y = parameters.span(0);
    resize.y.reversed = flip_y;
    resize.transposed = orientation.transposed;
    resize.interpolation = parameters.interpolation;
    if (orientation.transposed) {
        std::swap(resize.x, resize.y);
        std::swap(source.height, source.width);
    }
    if (orientation.flip_x) resize.x.mirror(source.width);
    if (orientation.flip_y) resize.y.mirror(source.height);
    return resize;
}

int reduced_eighths(double scale, int margin) {
    return scale >= 8 * margin ? 1 : scale >= 4 * margin ? 2 : scale >= 2 * margin ? 4 : 8;
}

int dct_eighths(const Resize& resize, int margin) {
    if (is_plain(resize.interpolation)) return 8;
    // 3/8 and similar sizes would save the resampler a little more work, but libjpeg-turbo has no SIMD for them.
    const double scale = std::min(resize.x.scale(), resize.y.scale());
    return reduced_eighths(scale, margin);
}

}  // namespace stoker
