#include "axis.h"

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

// Weights that sum to one -> integers that sum to 1 << kWeightBits; the largest takes what rounding left.
void quantize(const double* exact, int count, double sum, std::int16_t* weights) {
    constexpr int one = 1 << kWeightBits;
    int total = 0, largest = 0;
    for (int i = 0; i < count; ++i) {
        weights[i] = static_cast<std::int16_t>(std::lround(exact[i] / sum * one));
        total += weights[i];
        if (weights[i] > weights[largest]) largest = i;
    }
    weights[largest] = static_cast<std::int16_t>(weights[largest] + one - total);
}

}  // namespace

void Axis::set(double begin, double end, int low, int high, int count, bool reversed) {
    const double scale = (end - begin) / count;
    const double support = std::max(scale, 1.0);
    const int widest = static_cast<int>(std::ceil(support)) * 2 + 1;
    outputs = count;
    taps = std::min(widest, high - low);
    taps += taps & 1;
    first.resize(static_cast<std::size_t>(count));
    weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps), 0);
    exact_.resize(static_cast<std::size_t>(taps));
    for (int i = 0; i < count; ++i) {
        const double center = begin + (i + 0.5) * scale;
        const int left = std::clamp(static_cast<int>(std::floor(center - support + 0.5)), low, high - 1);
        const int right = std::clamp(static_cast<int>(std::floor(center + support + 0.5)), left + 1,
                                     std::min(high, left + taps));
        double sum = 0;
        for (int x = left; x < right; ++x) {
            const double weight = std::max(0.0, 1.0 - std::abs(x - center + 0.5) / support);
            exact_[static_cast<std::size_t>(x - left)] = weight;
            sum += weight;
        }
        if (sum == 0) exact_[0] = sum = 1;  // a region reduced to less than a pixel at the border
        // Near the end the taps start earlier, behind zeros, so that kernels read nothing past `high`
        // but the one tap that makes their number even.
        const int start = std::max(low, std::min(left, high - taps));
        const auto output = static_cast<std::size_t>(reversed ? count - 1 - i : i);
        first[output] = start;
        quantize(exact_.data(), right - left, sum,
                 weights.data() + output * static_cast<std::size_t>(taps) + (left - start));
    }
}

int Axis::begin() const { return std::min(first.front(), first.back()); }

int Axis::end() const { return std::max(first.front(), first.back()) + taps; }

void Axis::shift(int by) {
    for (std::int32_t& start : first) start += by;
}

}  // namespace stoker
