#include "resample/placement.h"

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

Placement placement_of(const Parameters& parameters, Orientation orientation, Size source, Size frame) {
    const auto* dest = parameters.dest;
    const bool flip_x = parameters.flip[0], flip_y = parameters.flip[1];
    Placement placement{};
    placement.dest = {flip_y ? frame.height - dest[0] - dest[2] : dest[0],
                      flip_x ? frame.width - dest[1] - dest[3] : dest[1], dest[2], dest[3]};
    placement.x = parameters.span(1);
    placement.x.reversed = flip_x;
    placement.y = parameters.span(0);
    placement.y.reversed = flip_y;
    placement.transposed = orientation.transposed;
    placement.interpolation = parameters.interpolation;
    if (orientation.transposed) {
        std::swap(placement.x, placement.y);
        std::swap(source.height, source.width);
    }
    if (orientation.flip_x) placement.x.mirror(source.width);
    if (orientation.flip_y) placement.y.mirror(source.height);
    return placement;
}

int reduced_eighths(double scale, int margin) {
    return scale >= 8 * margin ? 1 : scale >= 4 * margin ? 2 : scale >= 2 * margin ? 4 : 8;
}

int dct_eighths(const Placement& placement, int margin) {
    if (is_plain(placement.interpolation)) return 8;
    // 3/8 and similar sizes would save the resampler a little more work, but libjpeg-turbo has no SIMD for them.
    const double scale = std::min(placement.x.scale(), placement.y.scale());
    return reduced_eighths(scale, margin);
}

}  // namespace stoker
