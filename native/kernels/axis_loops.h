// The loops that compute the taps and weights of an axis, which the compiler vectorises. A file of each
// instruction set includes this one; see store_kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/rounding.h"

namespace stoker {
namespace {

constexpr int kAxisBlock = 64;  // outputs that are computed at once

// Computes the first tap of the outputs from `at` on. `nearest` is the tap that is nearest to each centre.
inline void locate_taps(const AxisPass& pass, int at, int count, std::int32_t* __restrict nearest) {
    const int start = pass.reversed ? pass.outputs - 1 - at : at, step = pass.reversed ? -1 : 1;
    const double begin = pass.begin, scale = pass.scale, support = pass.support;
    const std::int32_t low = pass.low, last = pass.last, last_tap = pass.used - 1;
    std::int32_t* __restrict first = pass.first + at;
    float* __restrict offset = pass.offset + at;
    for (int i = 0; i < count; ++i) {
        const double center = begin + (start + i * step + 0.5) * scale;
        first[i] = clamped(round_down(center - support + 0.5), low, last);
        offset[i] = static_cast<float>(first[i] + 0.5 - center);
        nearest[i] = clamped(round_down(center) - first[i], 0, last_tap);
    }
}

// Computes the weights. The nearest tap gets the remainder of rounding. A loop over a number of taps that is
// known at compile time is vectorised over outputs.
template <class Count>
void compute_weights(const float* __restrict offset, const std::int32_t* __restrict nearest, int count, float slope,
                     Count used, std::int16_t* __restrict weights) {
    constexpr int one = 1 << kWeightBits;
    const std::ptrdiff_t taps = used + (used & 1);
    for (int i = 0; i < count; ++i, weights += taps) {
        const auto value = [&](int t) {
            const float distance = offset[i] + static_cast<float>(t);
            const float above = 1 - (distance < 0 ? -distance : distance) * slope;
            return above > 0 ? above : 0;
        };
        float sum = 0;
        for (int t = 0; t < used; ++t) sum += value(t);
        const float factor = sum > 0 ? one / sum : 0;  // 0 for a region of less than a pixel at the border
        const auto weight = [&](int t) { return static_cast<std::int32_t>(value(t) * factor + 0.5F); };
        std::int32_t left = one;
        for (int t = 0; t < used; ++t) left -= weight(t);
        for (int t = 0; t < used; ++t)
            weights[t] = static_cast<std::int16_t>(weight(t) + (nearest[i] == t ? left : 0));
        if (used & 1) weights[used] = 0;
    }
}

template <int number>
struct Constant {
    constexpr operator int() const { return number; }
};

inline void axis(const AxisPass& pass) {
    const std::ptrdiff_t taps = pass.used + (pass.used & 1);
    for (int at = 0; at < pass.outputs; at += kAxisBlock) {
        const int count = pass.outputs - at < kAxisBlock ? pass.outputs - at : kAxisBlock;
        std::int32_t nearest[kAxisBlock];
        locate_taps(pass, at, count, nearest);
        if (pass.weights == nullptr) continue;
        const auto compute_with = [&](auto used) {
            compute_weights(pass.offset + at, nearest, count, pass.slope, used, pass.weights + at * taps);
        };
        switch (pass.used) {
            case 2: compute_with(Constant<2>()); break;
            case 3: compute_with(Constant<3>()); break;
            case 4: compute_with(Constant<4>()); break;
            default: compute_with(pass.used);
        }
    }
}

}  // namespace
}  // namespace stoker
