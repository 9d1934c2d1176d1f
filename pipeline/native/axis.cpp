#include "axis.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "span.h"

namespace stoker {
namespace {

// Rounded down, for the numbers of pixels that occur; std::floor is a call on the oldest x86-64.
int whole(double value) {
    const int truncated = static_cast<int>(value);
    return truncated - (value < truncated);
}

// `count` may be known at compile time.
template <class Count>
void weigh(float offset, float slope, Count count, int tallest, std::int16_t* weights) {
    constexpr int one = 1 << kWeightBits;
    const auto height = [&](int t) {
        return std::max(0.0F, 1 - std::abs(offset + static_cast<float>(t)) * slope);
    };
    float sum = 0;
    for (int t = 0; t < count; ++t) sum += height(t);
    const float factor = sum > 0 ? one / sum : 0;  // 0: a region of less than a pixel at the border
    int left = one;
    for (int t = 0; t < count; ++t) {
        weights[t] = static_cast<std::int16_t>(height(t) * factor + 0.5F);
        left -= weights[t];
    }
    weights[tallest] = static_cast<std::int16_t>(weights[tallest] + left);
}

// Keys' cubic convolution with a = -0.5.
float cubic(float x) {
    const float d = std::abs(x);
    if (d < 1) return (1.5F * d - 2.5F) * d * d + 1;
    return d < 2 ? ((2.5F - 0.5F * d) * d - 4) * d + 2 : 0;
}

float sinc(float x) {
    const float angle = 3.14159265358979F * x;
    return x == 0 ? 1 : std::sin(angle) / angle;
}

float lanczos(float x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0; }

// As weigh() does for any filter. Sums are rounded, not weights: many small ones add up.
template <class Filter>
void weigh_by(Filter filter, float offset, float slope, int count, std::vector<float>& heights,
              std::int16_t* weights) {
    constexpr int one = 1 << kWeightBits;
    heights.resize(static_cast<std::size_t>(count));
    float total = 0;
    for (std::size_t t = 0; t < heights.size(); ++t)
        total += heights[t] = filter((offset + static_cast<float>(t)) * slope);
    const float factor = one / total;  // not 0, as no centre is farther than the middle lobe from a sample
    float sum = 0.5F;
    int before = 0;
    for (int t = 0; t < count; ++t) {
        sum += heights[static_cast<std::size_t>(t)] * factor;
        const int now = t + 1 == count ? one : whole(sum);
        weights[t] = static_cast<std::int16_t>(now - before);
        before = now;
    }
}

}  // namespace

void weigh_triangle(float offset, float slope, int count, int tallest, std::int16_t* weights) {
    switch (count) {
        case 2: return weigh(offset, slope, std::integral_constant<int, 2>(), tallest, weights);
        case 3: return weigh(offset, slope, std::integral_constant<int, 3>(), tallest, weights);
        case 4: return weigh(offset, slope, std::integral_constant<int, 4>(), tallest, weights);
        default: return weigh(offset, slope, count, tallest, weights);
    }
}

void Axis::set(const Span& span, bool reversed, Interpolation interpolation) {
    const auto by = [&](double radius, auto filter) {
        set_filter(span, reversed, radius, [&](float offset, float slope, int count, int, std::int16_t* to) {
            weigh_by(filter, offset, slope, count, heights_, to);
        });
    };
    lobes = interpolation > Interpolation::bilinear;
    switch (interpolation) {
        case Interpolation::nearest: return set_nearest(span, reversed);
        case Interpolation::bilinear: return set_filter(span, reversed, 1, weigh_triangle);
        case Interpolation::bicubic: return by(2, cubic);
        case Interpolation::lanczos: return by(3, lanczos);
    }
}

template <class Weigh>
void Axis::set_filter(const Span& span, bool reversed, double radius, Weigh weigh) {
    const double scale = span.scale();
    const double shrink = std::max(scale, 1.0);
    const double support = radius * shrink;
    const auto slope = static_cast<float>(1 / shrink);
    const int used = std::min(static_cast<int>(std::ceil(2 * support)), span.high - span.low);
    reserve(span.outputs, used + (used & 1));
    for (int i = 0; i < outputs; ++i) {
        const double center = span.begin + (i + 0.5) * scale;
        // Where the filter is cut off at the end, zeros come first, so that kernels read nothing past
        // `high` but the one tap that makes their number even.
        const int start = std::clamp(whole(center - support + 0.5), span.low, span.high - used);
        const int tallest = std::clamp(whole(center) - start, 0, used - 1);
        const auto offset = static_cast<float>(start + 0.5 - center);
        const auto output = static_cast<std::size_t>(reversed ? outputs - 1 - i : i);
        first[output] = start;
        weigh(offset, slope, used, tallest, weights.data() + output * static_cast<std::size_t>(taps));
    }
}

void Axis::set_nearest(const Span& span, bool reversed) {
    const double scale = span.scale();
    // As many taps as the triangle has, up to eight: the more, the fewer outputs does a kernel take at once,
    // and neighbours here lie as far apart.
    reserve(span.outputs, 2 * std::clamp(static_cast<int>(std::ceil(scale)), 1, 4));
    for (int i = 0; i < outputs; ++i) {
        int nearest = whole(span.begin + (i + 0.5) * scale);
        if (span.mirrored > 0)  // the right one of two is so in the picture that parameters speak of
            nearest = span.mirrored - 1 - whole(span.mirrored - span.end + (outputs - i - 0.5) * scale);
        const auto output = static_cast<std::size_t>(reversed ? outputs - 1 - i : i);
        first[output] = std::clamp(nearest, span.low, span.high - 1);
        weights[output * static_cast<std::size_t>(taps)] = 1 << kWeightBits;
    }
}

void Axis::reserve(int count, int most) {
    outputs = count;
    taps = most;
    first.assign(static_cast<std::size_t>(count) + kAxisSlack, 0);
    weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(most) + kAxisSlack, 0);
}

int Axis::begin() const { return std::min(first[0], first[static_cast<std::size_t>(outputs) - 1]); }

int Axis::end() const { return std::max(first[0], first[static_cast<std::size_t>(outputs) - 1]) + taps; }

void Axis::shift(int by) {
    for (std::int32_t& start : first) start += by;
}

}  // namespace stoker
