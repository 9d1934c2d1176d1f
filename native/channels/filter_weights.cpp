#include "channels/filter_weights.h"

#include <algorithm>
#include <cmath>

#include "resample/filters.h"

namespace stoker {

void FilterWeights::set(const Span& span, Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::bilinear: return set_filter(span, 1, triangle<double>);
        case Interpolation::bicubic: return set_filter(span, 2, cubic<double>);
        case Interpolation::lanczos: return set_filter(span, 3, lanczos<double>);
        case Interpolation::plain_bilinear: return set_plain(span, 1, triangle<double>);
        case Interpolation::plain_bicubic: return set_plain(span, 2, plain_cubic);
        case Interpolation::nearest: break;
    }
    taps = 1;
    first.clear();
    for (int i = 0; i < span.outputs; ++i)
        first.push_back(std::clamp(static_cast<int>(std::floor(span.begin + (i + 0.5) * span.scale())), span.low,
                                   span.high - 1));
    count.assign(first.size(), 1);
    weights.assign(first.size(), 1);
}

std::pair<int, int> FilterWeights::reach() const {
    int begin = first.front(), end = begin;
    for (std::size_t i = 0; i < first.size(); ++i) {
        begin = std::min(begin, first[i]);
        end = std::max(end, first[i] + count[i]);
    }
    return {begin, end};
}

template <class Filter>
void FilterWeights::set_plain(const Span& span, int radius, Filter filter) {
    taps = 2 * radius;
    first.clear();
    count.clear();
    weights.assign(static_cast<std::size_t>(span.outputs) * static_cast<std::size_t>(taps), 0);
    for (int i = 0; i < span.outputs; ++i) {
        const double center = span.begin + (i + 0.5) * span.scale();
        const int from = static_cast<int>(std::floor(center - 0.5)) - radius + 1;
        const int low = std::clamp(from, span.low, span.high - 1);
        float* out = weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps);
        for (int t = from; t < from + taps; ++t)
            out[std::clamp(t, span.low, span.high - 1) - low] += static_cast<float>(filter(t + 0.5 - center));
        first.push_back(low);
        count.push_back(std::min(taps, span.high - low));
    }
}

template <class Filter>
void FilterWeights::set_filter(const Span& span, double radius, Filter filter) {
    const double scale = span.scale(), shrink = std::max(scale, 1.0), support = radius * shrink;
    taps = std::min(static_cast<int>(std::ceil(support)) * 2 + 1, span.high - span.low);
    first.clear();
    count.clear();
    weights.assign(static_cast<std::size_t>(span.outputs) * static_cast<std::size_t>(taps), 0);
    for (int i = 0; i < span.outputs; ++i) {
        const double center = span.begin + (i + 0.5) * scale;
        // A region may begin or end a rounding error outside of the span.
        const int from = std::clamp(static_cast<int>(std::floor(center - support + 0.5)), span.low, span.high - 1);
        const int to = std::clamp(static_cast<int>(std::floor(center + support + 0.5)), from + 1, span.high);
        float* out = weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps);
        const int used = std::min(to - from, taps);
        double total = 0;
        for (int t = 0; t < used; ++t) total += filter((from + t + 0.5 - center) / shrink);
        for (int t = 0; t < used; ++t)
            out[t] = static_cast<float>(filter((from + t + 0.5 - center) / shrink) / total);
        first.push_back(from);
        count.push_back(used);
    }
}

}  // namespace stoker
