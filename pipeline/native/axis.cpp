#include "axis.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

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

}  // namespace

void weigh_triangle(float offset, float slope, int count, int tallest, std::int16_t* weights) {
    switch (count) {
        case 2: return weigh(offset, slope, std::integral_constant<int, 2>(), tallest, weights);
        case 3: return weigh(offset, slope, std::integral_constant<int, 3>(), tallest, weights);
        case 4: return weigh(offset, slope, std::integral_constant<int, 4>(), tallest, weights);
        default: return weigh(offset, slope, count, tallest, weights);
    }
}

void Axis::set(double begin, double end, int low, int high, int count, bool reversed) {
    const double scale = (end - begin) / count;
    const double support = std::max(scale, 1.0);
    const auto slope = static_cast<float>(1 / support);
    const int used = std::min(static_cast<int>(std::ceil(2 * support)), high - low);
    outputs = count;
    taps = used + (used & 1);
    first.assign(static_cast<std::size_t>(count) + kAxisSlack, 0);
    weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps) + kAxisSlack, 0);
    for (int i = 0; i < count; ++i) {
        const double center = begin + (i + 0.5) * scale;
        // Where the triangle is cut off at the end, zeros come first, so that kernels read nothing past
        // `high` but the one tap that makes their number even.
        const int start = std::clamp(whole(center - support + 0.5), low, high - used);
        const int tallest = std::clamp(whole(center) - start, 0, used - 1);
        const auto offset = static_cast<float>(start + 0.5 - center);
        const auto output = static_cast<std::size_t>(reversed ? count - 1 - i : i);
        first[output] = start;
        weigh_triangle(offset, slope, used, tallest, weights.data() + output * static_cast<std::size_t>(taps));
    }
}

int Axis::begin() const { return std::min(first[0], first[static_cast<std::size_t>(outputs) - 1]); }

int Axis::end() const { return std::max(first[0], first[static_cast<std::size_t>(outputs) - 1]) + taps; }

void Axis::shift(int by) {
    for (std::int32_t& start : first) start += by;
}

}  // namespace stoker
