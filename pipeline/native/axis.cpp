#include "axis.h"

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

// To integers that sum to 1 << kWeightBits; the largest takes what rounding left.
void quantize(const double* exact, int count, double sum, std::int16_t* weights) {
    constexpr int one = 1 << kWeightBits;
    const double factor = one / sum;
    int total = 0, largest = 0;
    for (int i = 0; i < count; ++i) {
        weights[i] = static_cast<std::int16_t>(exact[i] * factor + 0.5);
        total += weights[i];
        if (weights[i] > weights[largest]) largest = i;
    }
    weights[largest] = static_cast<std::int16_t>(weights[largest] + one - total);
}

// Rounded down, for the numbers of pixels that occur; std::floor is a call on the oldest x86-64.
int whole(double value) {
    const int truncated = static_cast<int>(value);
    return truncated - (value < truncated);
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
    const double slope = 1 / support;
    for (int i = 0; i < count; ++i) {
        const double center = begin + (i + 0.5) * scale;
        const int left = std::clamp(whole(center - support + 0.5), low, high - 1);
        const int right = std::clamp(whole(center + support + 0.5), left + 1,
                                     std::min(high, left + taps));
        double sum = 0;
        for (int x = left; x < right; ++x) {
            const double weight = std::max(0.0, 1.0 - std::abs(x - center + 0.5) * slope);
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
