// The kernel of warps for AVX2 and AVX-512. Each 128 bits of a vector belong to an output: red, green, blue and an unused
// number.
#pragma once

#include "kernels/steps/step_kernels.h"
#include "kernels/vectors.h"

namespace stoker {
namespace {

constexpr int kOutputs = kVectorBytes / 16;  // that are computed at once

inline __m128i load16(const std::uint8_t* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }

inline __m256i joined(__m128i low, __m128i high) { return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1); }

// Returns a pair of weights of each output, repeated over its 128 bits.
Vector weight_pairs(const std::int16_t* const weights[kOutputs], int pair) {
    std::int32_t values[kOutputs];
    for (int i = 0; i < kOutputs; ++i) std::memcpy(&values[i], weights[i] + 2 * pair, 4);
#if defined(__AVX512BW__)
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(
        spread, _mm512_castsi128_si512(_mm_setr_epi32(values[0], values[1], values[2], values[3])));
#else
    return _mm256_setr_m128i(_mm_set1_epi32(values[0]), _mm_set1_epi32(values[1]));
#endif
}

// Returns 16 bytes of the source of each output.
Vector pixels_of(const std::uint8_t* const from[kOutputs], std::ptrdiff_t at) {
    const __m256i two = joined(load16(from[0] + at), load16(from[1] + at));
#if defined(__AVX512BW__)
    const __m256i others = joined(load16(from[2] + at), load16(from[3] + at));
    return _mm512_inserti64x4(_mm512_castsi256_si512(two), others, 1);
#else
    return two;
#endif
}

// Returns the bytes `order` of each output.
inline Vector shuffled(Vector pixels, __m128i order) {
#if defined(__AVX512BW__)
    return _mm512_shuffle_epi8(pixels, _mm512_broadcast_i32x4(order));
#else
    return _mm256_shuffle_epi8(pixels, _mm256_broadcastsi128_si256(order));
#endif
}

// Returns the even words of `even` and the odd words of `odd`.
inline Vector alternated(Vector even, Vector odd) {
#if defined(__AVX512BW__)
    return _mm512_mask_blend_epi16(0xAAAAAAAA, even, odd);
#else
    return _mm256_blend_epi16(even, odd, 0xAA);
#endif
}

void store_outputs(Vector sum, int plane, std::uint8_t* out) {
    const Vector levels = STOKER_MM(srai_epi32)(sum, 2 * kWeightBits - kWarpShift);
#if defined(__AVX512BW__)
    const __m128i by_channel = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, -1, -1, -1, -1);
    const __m128i pixels = _mm_shuffle_epi8(_mm512_cvtepi32_epi8(levels), by_channel);
    const int channels[3] = {_mm_extract_epi32(pixels, 0), _mm_extract_epi32(pixels, 1), _mm_extract_epi32(pixels, 2)};
    for (int c = 0; c < 3; ++c) std::memcpy(out + c * plane, &channels[c], 4);
#else
    alignas(32) std::int32_t values[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(values), levels);
    for (int c = 0; c < 3; ++c) {
        out[c * plane] = static_cast<std::uint8_t>(values[c]);
        out[c * plane + 1] = static_cast<std::uint8_t>(values[4 + c]);
    }
#endif
}

// `pairs` is the number of pairs of taps along each axis, or 0 if only the pass has it.
template <int pairs>
void warp_pairs(const WarpPass& pass, std::uint8_t* planes) {
    const __m128i first_pair = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
    const __m128i second_pair = _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const int pairs_x = pairs ? pairs : pass.taps_x / 2, pairs_y = pairs ? pairs : pass.taps_y / 2;
    for (int k = 0; k < pass.outputs; k += kOutputs) {
        const std::uint8_t* from[kOutputs];
        const std::int16_t *weights_x[kOutputs], *weights_y[kOutputs];
        for (int i = 0; i < kOutputs; ++i) {
            from[i] = pass.source + pass.offset[k + i];
            weights_x[i] = pass.table_x + pass.weights_x[k + i];
            weights_y[i] = pass.table_y + pass.weights_y[k + i];
        }
        const auto across = [&](int y) {
            Vector sum{};
            for (int pair = 0; pair < pairs_x; pair += 2) {
                const Vector pixels = pixels_of(from, y * pass.stride + 6 * pair);
                sum = STOKER_MM(add_epi32)(
                    sum, STOKER_MM(madd_epi16)(shuffled(pixels, first_pair), weight_pairs(weights_x, pair)));
                if (pair + 1 < pairs_x)
                    sum = STOKER_MM(add_epi32)(
                        sum, STOKER_MM(madd_epi16)(shuffled(pixels, second_pair), weight_pairs(weights_x, pair + 1)));
            }
            return sum;
        };
        Vector sum = STOKER_MM(set1_epi32)(kWarpHalf);
        for (int pair = 0; pair < pairs_y; ++pair) {
            const Vector both = alternated(STOKER_MM(srli_epi32)(across(2 * pair), kWarpShift),
                                           STOKER_MM(slli_epi32)(across(2 * pair + 1), 16 - kWarpShift));
            sum = STOKER_MM(add_epi32)(sum, STOKER_MM(madd_epi16)(both, weight_pairs(weights_y, pair)));
        }
        store_outputs(sum, pass.plane, planes + k);
    }
}

void warp_x86(const WarpPass& pass, std::uint8_t* planes) {
    if (pass.taps_x == 2 && pass.taps_y == 2) return warp_pairs<1>(pass, planes);
    if (pass.taps_x == 4 && pass.taps_y == 4) return warp_pairs<2>(pass, planes);
    warp_pairs<0>(pass, planes);
}

}  // namespace
}  // namespace stoker
