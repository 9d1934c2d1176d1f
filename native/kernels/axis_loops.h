// Places and weights of an axis of a resize. Plain loops that the compiler vectorises: included once for each
// instruction set, hence all in an unnamed namespace and without the standard library, as store_kernels.h is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace stoker {
namespace {

constexpr int kAxisBlock = 64;  // outputs that are worked on at once

// For the numbers of pixels that occur.
inline std::int32_t rounded_down(double value) {
    const auto truncated = static_cast<std::int32_t>(value);
    return truncated - (value < truncated);
}

inline std::int32_t within(std::int32_t value, std::int32_t low, std::int32_t high) {
    const std::int32_t raised = value > low ? value : low;
    return raised < high ? raised : high;
}

// Of outputs from `at` on. `tallest` is the sample nearest to each centre, counted from the first.
inline void locate_taps(const AxisPass& pass, int at, int count, std::int32_t* __restrict tallest) {
    const int start = pass.reversed ? pass.outputs - 1 - at : at, step = pass.reversed ? -1 : 1;
    const double begin = pass.begin, scale = pass.scale, support = pass.support;
    const std::int32_t low = pass.low, last = pass.last, most = pass.used - 1;
    std::int32_t* __restrict first = pass.first + at;
    float* __restrict offset = pass.offset + at;
    for (int i = 0; i < count; ++i) {
        const double center = begin + (start + i * step + 0.5) * scale;
        first[i] = within(rounded_down(center - support + 0.5), low, last);
        offset[i] = static_cast<float>(first[i] + 0.5 - center);
        tallest[i] = within(rounded_down(center) - first[i], 0, most);
    }
}

// What rounding leaves goes to the tallest sample. Where `used` is known at compile time, many outputs are weighed
// at once.
template <class Count>
void weigh(const float* __restrict offset, const std::int32_t* __restrict tallest, int count, float slope, Count used,
           std::int16_t* __restrict weights) {
    constexpr int one = 1 << kWeightBits;
    const std::ptrdiff_t taps = used + (used & 1);
    for (int i = 0; i < count; ++i, weights += taps) {
        const auto height = [&](int t) {
            const float distance = offset[i] + static_cast<float>(t);
            const float above = 1 - (distance < 0 ? -distance : distance) * slope;
            return above > 0 ? above : 0;
        };
        float sum = 0;
        for (int t = 0; t < used; ++t) sum += height(t);
        const float factor = sum > 0 ? one / sum : 0;  // 0: a region of less than a pixel at the border
        const auto weight = [&](int t) { return static_cast<std::int32_t>(height(t) * factor + 0.5F); };
        std::int32_t left = one;
        for (int t = 0; t < used; ++t) left -= weight(t);
        for (int t = 0; t < used; ++t)
            weights[t] = static_cast<std::int16_t>(weight(t) + (tallest[i] == t ? left : 0));
        if (used & 1) weights[used] = 0;
    }
}

template <int number>
struct Known {
    constexpr operator int() const { return number; }
};

inline void axis(const AxisPass& pass) {
    const std::ptrdiff_t taps = pass.used + (pass.used & 1);
    for (int at = 0; at < pass.outputs; at += kAxisBlock) {
        const int count = pass.outputs - at < kAxisBlock ? pass.outputs - at : kAxisBlock;
        std::int32_t tallest[kAxisBlock];
        locate_taps(pass, at, count, tallest);
        if (pass.weights == nullptr) continue;
        const auto weigh_as = [&](auto used) {
            weigh(pass.offset + at, tallest, count, pass.slope, used, pass.weights + at * taps);
        };
        switch (pass.used) {
            case 2: weigh_as(Known<2>()); break;
            case 3: weigh_as(Known<3>()); break;
            case 4: weigh_as(Known<4>()); break;
            default: weigh_as(pass.used);
        }
    }
}

}  // namespace
}  // namespace stoker
