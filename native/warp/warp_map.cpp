#include "warp/warp_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/rounding.h"
#include "kernels/steps/step_kernels.h"

namespace stoker {
namespace {

// The limits of axis-aligned maps that the resampler can execute: its weights have too few bits for more taps.
constexpr double kMinScale = 1e-3, kMaxScale = 64, kMaxShift = 1e6;

constexpr int kSupportStep = 16;  // distance of the points at which supports are computed, in output pixels

int rounded(int size, int eighths) { return (size * eighths + 4) / 8; }

}  // namespace

WarpMap::WarpMap(const double* matrix, const Window& window) : window_(window) {
    std::copy(matrix, matrix + 9, m_.begin());
}

WarpMap::WarpMap(const double* matrix, const Resize& resize) : WarpMap(matrix, Window{}) {
    const Span &x = resize.x, &y = resize.y;
    if (resize.transposed)
        for (std::size_t i = 0; i < 3; ++i) std::swap(m_[i], m_[3 + i]);
    const auto [left, top] = resize.transposed ? std::make_pair(resize.dest.top, resize.dest.left)
                                                  : std::make_pair(resize.dest.left, resize.dest.top);
    compose_axis(0, x.begin, x.end, left, x.outputs, x.reversed);
    compose_axis(3, y.begin, y.end, top, y.outputs, y.reversed);
    const auto low = [](const Span& span) { return std::max(span.low, static_cast<int>(std::floor(span.begin))); };
    const auto high = [](const Span& span) { return std::min(span.high, static_cast<int>(std::ceil(span.end))); };
    window_ = {low(x), low(y), high(x), high(y)};
}

// For p from 0 to 1, the canvas coordinate offset + p * outputs is begin + p * (end - begin) in the source, or
// end - p * (end - begin) if `reversed`.
void WarpMap::compose_axis(int row, double begin, double end, int offset, int outputs, bool reversed) {
    const double scale = (reversed ? begin - end : end - begin) / outputs;
    const double shift = (reversed ? end : begin) - offset * scale;
    double* m = m_.data() + row;
    for (int i = 0; i < 3; ++i) m[i] = m[i] * scale + m_[static_cast<std::size_t>(6 + i)] * shift;
}

bool WarpMap::aligned() const {
    const auto bounded = [](const AxisMap& axis) {
        return std::abs(axis.scale) >= kMinScale && std::abs(axis.scale) <= kMaxScale &&
               std::abs(axis.shift) <= kMaxShift;
    };
    return m_[1] == 0 && m_[3] == 0 && bounded(axis_x()) && bounded(axis_y());
}

SourcePoint WarpMap::at(double column, double row) const {
    const double w = m_[6] * column + m_[7] * row + m_[8];
    if (!(w > 0)) return {-kFarAway, -kFarAway, 1, 1, false};
    const double x = clamped((m_[0] * column + m_[1] * row + m_[2]) / w, -kFarAway, kFarAway);
    const double y = clamped((m_[3] * column + m_[4] * row + m_[5]) / w, -kFarAway, kFarAway);
    const auto support = [&](double along_column, double along_row) {
        return clamped(std::sqrt(along_column * along_column + along_row * along_row) / w, 1.0, kFarAway);
    };
    return {x, y, support(m_[0] - x * m_[6], m_[1] - x * m_[7]), support(m_[3] - y * m_[6], m_[4] - y * m_[7]), true};
}

// If the output shows no horizon, its rectangle becomes a convex quadrilateral, which its corners bound. The
// derivative of x along columns, times w * w, is linear in the row, and that along rows is linear in the column. So
// their values at the corners bound all values.
Footprint WarpMap::footprint(int height, int width) const {
    Footprint footprint{kFarAway, kFarAway, -kFarAway, -kFarAway, kFarAway};
    double least_w = kFarAway, slopes[2] = {0, 0};
    for (const double row : {0.5, height - 0.5})
        for (const double column : {0.5, width - 0.5}) {
            const SourcePoint point = at(column, row);
            if (!point.visible) return {-kFarAway, -kFarAway, kFarAway, kFarAway, 1};
            const double w = m_[6] * column + m_[7] * row + m_[8];
            least_w = std::min(least_w, w);
            slopes[0] = std::max(slopes[0], point.support_x * w * w);
            slopes[1] = std::max(slopes[1], point.support_y * w * w);
            footprint.left = std::min(footprint.left, point.x);
            footprint.right = std::max(footprint.right, point.x);
            footprint.top = std::min(footprint.top, point.y);
            footprint.bottom = std::max(footprint.bottom, point.y);
        }
    const auto support = [&](double slope) { return clamped(slope / (least_w * least_w), 1.0, kFarAway); };
    footprint.left -= support(slopes[0]);
    footprint.right += support(slopes[0]);
    footprint.top -= support(slopes[1]);
    footprint.bottom += support(slopes[1]);
    footprint.support = min_support(height, width);
    return footprint;
}

// Computes supports at points kSupportStep apart, between which they change little.
double WarpMap::min_support(int height, int width) const {
    double smallest = kFarAway;
    const int step_y = affine() ? height : kSupportStep, step_x = affine() ? width : kSupportStep;
    for (int row = 0; row < height - 1 + step_y; row += step_y)
        for (int column = 0; column < width - 1 + step_x; column += step_x) {
            const SourcePoint point = at(std::min(column, width - 1) + 0.5, std::min(row, height - 1) + 0.5);
            smallest = std::min(smallest, std::min(point.support_x, point.support_y));
        }
    return smallest;
}

void WarpMap::reduce(int eighths) {
    for (std::size_t i = 0; i < 6; ++i) m_[i] *= eighths / 8.0;
    const auto axis = [&](int& low, int& high) {
        high = std::max(rounded(high, eighths), 1);
        low = std::min(rounded(low, eighths), high - 1);
    };
    axis(window_.left, window_.right);
    axis(window_.top, window_.bottom);
}

}  // namespace stoker
