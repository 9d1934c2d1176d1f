#include "warp/aligned_warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stoker {
namespace {

// The span of an axis of outputs, all of which read pixels in [low, high) and in a margin around it.
Span span_of(const AxisMap& map, int low, int high, int outputs) {
    const double first = map.shift, last = map.scale * outputs + map.shift;
    const int margin = 2 * static_cast<int>(std::ceil(std::max(1.0, std::abs(map.scale)))) + 1;
    return {std::min(first, last), std::max(first, last), low - margin, high + margin, outputs, map.scale < 0};
}

void paint(std::vector<std::uint8_t>& row, int pixels, const std::uint8_t* fill) {
    row.resize(3 * static_cast<std::size_t>(pixels) + kRowSlack);
    for (std::size_t i = 0; i < static_cast<std::size_t>(pixels); ++i) std::memcpy(row.data() + 3 * i, fill, 3);
}

}  // namespace

const Window& AlignedWarp::begin(const WarpMap& map, int height, int width, const std::uint8_t* fill, RowSink& sink) {
    const Window& seen = map.window();
    Resize resize{};
    resize.x = span_of(map.axis_x(), seen.left, seen.right, width);
    resize.y = span_of(map.axis_y(), seen.top, seen.bottom, height);
    resize.dest = {0, 0, height, width};
    const Window wanted = resampler_.set(resize);
    window_ = {std::clamp(wanted.left, seen.left, seen.right), std::clamp(wanted.top, seen.top, seen.bottom),
               std::clamp(wanted.right, seen.left, seen.right), std::clamp(wanted.bottom, seen.top, seen.bottom)};
    if (window_.left == window_.right || window_.top == window_.bottom)
        window_ = {wanted.left, wanted.top, wanted.left, wanted.top};
    before_ = window_.left - wanted.left;
    below_ = wanted.bottom - window_.bottom;
    paint(row_, wanted.right - wanted.left, fill);
    paint(margin_row_, wanted.right - wanted.left, fill);
    orienter_.begin(sink, resize);
    resampler_.begin(orienter_, wanted.bottom - wanted.top);
    push_margin(window_.top - wanted.top);
    return window_;
}

void AlignedWarp::push_margin(int rows) {
    for (int y = 0; y < rows; ++y) resampler_.push(margin_row_.data());
}

void AlignedWarp::push(const std::uint8_t* rgb) {
    std::memcpy(row_.data() + 3 * before_, rgb, 3 * static_cast<std::size_t>(window_.right - window_.left));
    resampler_.push(row_.data());
}

void AlignedWarp::finish() {
    push_margin(below_);
    orienter_.finish();
}

}  // namespace stoker
