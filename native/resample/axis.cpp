#include "resample/axis.h"

#include <algorithm>
#include <cmath>

#include "kernels/rounding.h"
#include "resample/filters.h"

namespace stoker {
namespace {

// The maximum scale for the triangle kernel. Beyond it, the rounding error may be larger than the largest weight.
constexpr double kMaxTriangleScale = 64;

// Computes the weights of `count` source pixels, the first at `offset` from the centre. It rounds cumulative
// sums instead of weights, because the errors of many small weights would add up.
template <class Filter>
void compute_weights(Filter filter, float offset, float slope, int count, std::vector<float>& values,
                     std::int16_t* weights) {
    constexpr int one = 1 << kWeightBits;
    values.resize(static_cast<std::size_t>(count));
    float total = 0;
    for (std::size_t t = 0; t < values.size(); ++t)
        total += values[t] = filter((offset + static_cast<float>(t)) * slope);
    const float factor = one / total;  // the sum is not 0: a pixel lies within the middle lobe of each centre
    float sum = 0.5F;
    int before = 0;
    for (int t = 0; t < count; ++t) {
        sum += values[static_cast<std::size_t>(t)] * factor;
        const int now = t + 1 == count ? one : round_down(sum);
        weights[t] = static_cast<std::int16_t>(now - before);
        before = now;
    }
}

}  // namespace

void Axis::set(const Span& span, bool reversed, Interpolation interpolation) {
    negative_lobes = interpolation == Interpolation::bicubic || interpolation == Interpolation::lanczos ||
                     interpolation == Interpolation::plain_bicubic;
    switch (interpolation) {
        case Interpolation::nearest: return set_nearest(span, reversed);
        case Interpolation::bilinear:
            if (span.scale() > kMaxTriangleScale) return set_filter(span, reversed, 1, triangle<float>);
            return set_triangles(span, reversed);
        case Interpolation::bicubic: return set_filter(span, reversed, 2, cubic<float>);
        case Interpolation::lanczos: return set_filter(span, reversed, 3, lanczos<float>);
        case Interpolation::plain_bilinear: return set_plain(span, reversed, 1, triangle<double>);
        case Interpolation::plain_bicubic: return set_plain(span, reversed, 2, plain_cubic);
    }
}

// All outputs have the same number of taps. An output whose filter reaches past the end of the image starts
// earlier, with weights of 0. So kernels read at most one pixel past `high`: the tap that makes the number even.
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
        compute_weights(filter, offset, pass.slope, pass.used, values_, to);
        to += taps;
    }
}

namespace {

// The taps of a filter that does not widen. There are as many as the triangle has, up to eight, because a kernel then
// computes fewer outputs at once, and their source pixels lie close enough together.
int taps_of(double scale, int radius) { return 2 * std::max(radius, std::clamp(static_cast<int>(std::ceil(scale)), 1, 4)); }

}  // namespace

template <class Filter>
void Axis::set_plain(const Span& span, bool reversed, int radius, Filter filter) {
    const double scale = span.scale();
    reserve(span.outputs, taps_of(scale, radius));
    for (int i = 0; i < outputs; ++i) {
        const double center = span.begin + (i + 0.5) * scale;
        const int from = round_down(center - 0.5) - radius + 1;
        const auto output = static_cast<std::size_t>(reversed ? outputs - 1 - i : i);
        std::int16_t* to = weights.data() + output * static_cast<std::size_t>(taps);
        first[output] = std::clamp(from, span.low, span.high - 1);
        double sum = 0.5;
        int before = 0;
        for (int t = from; t < from + 2 * radius; ++t) {
            sum += filter(t + 0.5 - center) * (1 << kWeightBits);
            const int now = t + 1 == from + 2 * radius ? 1 << kWeightBits : static_cast<int>(std::floor(sum));
            std::int16_t& weight = to[std::clamp(t, span.low, span.high - 1) - first[output]];
            weight = static_cast<std::int16_t>(weight + now - before);
            before = now;
        }
    }
}

void Axis::set_nearest(const Span& span, bool reversed) {
    const double scale = span.scale();
    reserve(span.outputs, taps_of(scale, 1));
    for (int i = 0; i < outputs; ++i) {
        int nearest = round_down(span.begin + (i + 0.5) * scale);
        if (span.mirrored > 0)  // "to the right" refers to the oriented image
            nearest = span.mirrored - 1 - round_down(span.mirrored - span.end + (outputs - i - 0.5) * scale);
        const auto output = static_cast<std::size_t>(reversed ? outputs - 1 - i : i);
        first[output] = std::clamp(nearest, span.low, span.high - 1);
        weights[output * static_cast<std::size_t>(taps)] = 1 << kWeightBits;
    }
}

void Axis::reserve(int count, int count_of_taps) {
    outputs = count;
    taps = count_of_taps;
    first.assign(static_cast<std::size_t>(count) + kAxisSlack, 0);
    weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps) + kAxisSlack, 0);
}

int Axis::begin() const { return std::min(first[0], first[static_cast<std::size_t>(outputs) - 1]); }

int Axis::end() const { return std::max(first[0], first[static_cast<std::size_t>(outputs) - 1]) + taps; }

void Axis::translate(int by) {
    for (std::int32_t& start : first) start += by;
}

}  // namespace stoker
