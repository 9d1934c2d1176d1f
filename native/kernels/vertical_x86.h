// The vertical pass for AVX2 and AVX-512.
#pragma once

#include "kernels/kernels.h"
#include "kernels/vectors.h"

namespace stoker {
namespace {

// The sums of the bytes of a vector, before the shift.
struct Sums {
    Vector part[4];

    void add(Vector a, Vector b, Vector weights) {
        const Vector zero{};
        const Vector low = STOKER_MM(unpacklo_epi8)(a, b), high = STOKER_MM(unpackhi_epi8)(a, b);
        const auto product = [&](Vector pairs) { return STOKER_MM(madd_epi16)(pairs, weights); };
        part[0] = STOKER_MM(add_epi32)(part[0], product(STOKER_MM(unpacklo_epi8)(low, zero)));
        part[1] = STOKER_MM(add_epi32)(part[1], product(STOKER_MM(unpackhi_epi8)(low, zero)));
        part[2] = STOKER_MM(add_epi32)(part[2], product(STOKER_MM(unpacklo_epi8)(high, zero)));
        part[3] = STOKER_MM(add_epi32)(part[3], product(STOKER_MM(unpackhi_epi8)(high, zero)));
    }
    Vector bytes() const {  // packing restores the order before unpacking
        const auto shifted = [&](int i) { return STOKER_MM(srai_epi32)(part[i], kWeightBits); };
        return STOKER_MM(packus_epi16)(STOKER_MM(packs_epi32)(shifted(0), shifted(1)),
                                       STOKER_MM(packs_epi32)(shifted(2), shifted(3)));
    }
};

// The sum of two rows with weights w and 1 - w, which are not negative, is b + (b - a) * -w. The instruction rounds as the
// sums of other weights do.
inline void vertical_two(const VerticalPass& pass, std::uint8_t* out) {
    const Vector zero{}, minus = STOKER_MM(set1_epi16)(static_cast<short>(-2 * pass.weights[0]));
    const auto between = [&](Vector a, Vector b) {
        return STOKER_MM(add_epi16)(b, STOKER_MM(mulhrs_epi16)(STOKER_MM(sub_epi16)(b, a), minus));
    };
    const std::uint8_t *first = pass.rows[0], *second = pass.rows[1];
    for (int x = 0; x < pass.bytes; x += kVectorBytes) {
        const Vector a = load(first + x), b = load(second + x);
        const Vector low = between(STOKER_MM(unpacklo_epi8)(a, zero), STOKER_MM(unpacklo_epi8)(b, zero));
        const Vector high = between(STOKER_MM(unpackhi_epi8)(a, zero), STOKER_MM(unpackhi_epi8)(b, zero));
        store(STOKER_MM(packus_epi16)(low, high), out + x);
    }
}

inline void vertical(const VerticalPass& pass, std::uint8_t* out) {
    if (pass.taps == 2 && pass.weights[0] >= 0 && pass.weights[1] >= 0) return vertical_two(pass, out);
    const Vector half = STOKER_MM(set1_epi32)(1 << (kWeightBits - 1));
    for (int x = 0; x < pass.bytes; x += kVectorBytes) {
        Sums sums{{half, half, half, half}};
        for (int t = 0; t < pass.taps; t += 2) {
            std::int32_t pair;
            std::memcpy(&pair, pass.weights + t, 4);
            if (pair != 0) sums.add(load(pass.rows[t] + x), load(pass.rows[t + 1] + x), STOKER_MM(set1_epi32)(pair));
        }
        store(sums.bytes(), out + x);
    }
}

}  // namespace
}  // namespace stoker
