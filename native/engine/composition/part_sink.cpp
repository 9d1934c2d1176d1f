#include "engine/composition/part_sink.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stoker {
namespace {

// The range of columns for which conditions hold. A pixel belongs to it if its centre does.
struct Columns {
    double low, high;

    // Keeps the columns x where slope * x + value >= 0, or > 0 if the condition is strict.
    void keep(double slope, double value) {
        if (slope > 0) low = std::max(low, -value / slope);
        if (slope < 0) high = std::min(high, -value / slope);
        if (slope == 0 && value < 0) high = low;
    }
};

// The first of `count` columns whose centre is not before `edge`, or `count`. `edge` may exceed any int.
int column_from(double edge, int count) {
    return static_cast<int>(std::ceil(std::clamp(edge, 0.0, static_cast<double>(count)) - 0.5));
}

}  // namespace

void PartSink::begin(PlanarImage& image, const Geometry& geometry) {
    image_ = &image;
    dest_ = geometry.resize.dest;
    warp_ = geometry.warp;
}

// Returns the pixels of row `y` that show the part. They are neighbours, because a projective map keeps lines.
PartSink::Span PartSink::seen(int y) const {
    const double row = y + 0.5;
    double at[3];  // the point of the canvas at column 0, in homogeneous coordinates
    for (int k = 0; k < 3; ++k) at[k] = warp_[3 * k + 1] * row + warp_[3 * k + 2];
    const double slope[3] = {warp_[0], warp_[3], warp_[6]};
    const double low[2] = {static_cast<double>(dest_.left), static_cast<double>(dest_.top)};
    const double high[2] = {low[0] + dest_.width, low[1] + dest_.height};
    Columns range{0, static_cast<double>(image_->width())};
    range.keep(slope[2], at[2]);
    for (int axis = 0; axis < 2; ++axis) {
        range.keep(slope[axis] - low[axis] * slope[2], at[axis] - low[axis] * at[2]);
        range.keep(high[axis] * slope[2] - slope[axis], high[axis] * at[2] - at[axis]);
    }
    const int begin = column_from(range.low, image_->width());
    return {begin, std::max(begin, column_from(range.high, image_->width()))};
}

void PartSink::row(int y, const std::uint8_t* planes, int plane) {
    Span span{0, dest_.width};
    std::uint8_t* to = nullptr;
    if (warp_ == nullptr) {
        to = image_->row(dest_.top + y) + dest_.left;
    } else {
        span = seen(y);
        to = image_->row(y);
    }
    for (int c = 0; c < 3; ++c)
        std::memcpy(to + static_cast<std::ptrdiff_t>(c) * image_->plane() + span.begin,
                    planes + static_cast<std::ptrdiff_t>(c) * plane + span.begin,
                    static_cast<std::size_t>(span.end - span.begin));
}

}  // namespace stoker
