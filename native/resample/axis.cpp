#include "resample/axis.h"

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

// Rounded down, for the numbers of pixels that occur; std::floor is a call on the oldest x86-64.
int whole(double value) {
    const int truncated = static_cast<int>(value);
    return truncated - (value < truncated);
}

// Where an image shrinks more, rounding may leave more than the tallest weight.
constexpr double kMaxTriangleScale = 64;

// Keys' cubic convolution with a = -0.5.
float cubic(float x) {
    const float d = std::abs(x);
    if (d < 1) return (1.5F * d - 2.5F) * d * d + 1;
    return d < 2 ? ((2.5F - 0.5F * d) * d - 4) * d + 2 : 0;
}

float triangle(float x) { return std::max(0.0F, 1 - std::abs(x)); }

float sinc(float x) {
    const float angle = 3.14159265358979F * x;
    return x == 0 ? 1 : std::sin(angle) / angle;
}

float lanczos(float x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0; }

// Weights of `count` samples, the first of which lies `offset` from the centre. Sums are rounded, not weights: many
// small ones add up.
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

void Axis::set(const Span& span, bool reversed, Interpolation interpolation) {
    negative_lobes = interpolation > Interpolation::bilinear;
    switch (interpolation) {
        case Interpolation::nearest: return set_nearest(span, reversed);
        case Interpolation::bilinear:
            if (span.scale() > kMaxTriangleScale) return set_filter(span, reversed, 1, triangle);
            return set_triangles(span, reversed);
        case Interpolation::bicubic: return set_filter(span, reversed, 2, cubic);
        case Interpolation::lanczos: return set_filter(span, reversed, 3, lanczos);
    }
}

// Where the filter is cut off at the end, zeros come first, so that kernels read nothing past `high` but the one
// tap that makes their number even.
AxisPass Axis::pass_of(const Span& span, bool reversed, double radius) {
    const double shrink = std::max(span.scale(), 1.0);
    AxisPass pass;
    pass.begin = span.begin;
    pass.scale = span.scale();
    pass.support = radius * shrink;
    pass.slope = static_cast<float>(1 / shrink);
    pass.reversed = reversed;
    pass.used = std::min(static_cast<int>(std::ceil(2 * pass.support)), span.high - span.low);
    pass.low = span.low;
    pass.last = span.high - pass.used;
    reserve(span.outputs, pass.used + (pass.used & 1));
    offset_.resize(static_cast<std::size_t>(outputs));
    pass.outputs = outputs;
    pass.first = first.data();
    pass.offset = offset_.data();
    return pass;
}

void Axis::set_triangles(const Span& span, bool reversed) {
    AxisPass pass = pass_of(span, reversed, 1);
    pass.weights = weights.data();
    kernels().axis(pass);
}

template <class Filter>
void Axis::set_filter(const Span& span, bool reversed, double radius, Filter filter) {
    const AxisPass pass = pass_of(span, reversed, radius);
    kernels().axis(pass);
    std::int16_t* to = weights.data();
    for (const float offset : offset_) {
        weigh_by(filter, offset, pass.slope, pass.used, heights_, to);
        to += taps;
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
