#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "cpu/cpu_features.h"
#include "kernels/steps/step_kernels.h"
#include "kernels/steps/step_loops.h"

namespace stoker {
namespace {

// Returns a pair of weights of four outputs, each repeated over its 128 bits.
__m512i weight_pairs(const std::int16_t* const weights[4], int pair) {
    std::int32_t values[4];
    for (int i = 0; i < 4; ++i) std::memcpy(&values[i], weights[i] + 2 * pair, 4);
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(
        spread, _mm512_castsi128_si512(_mm_setr_epi32(values[0], values[1], values[2], values[3])));
}

__m512i four_pixels(const std::uint8_t* const from[4], std::ptrdiff_t at) {
    const auto load = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from[i] + at)); };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(load(0)), load(1), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(load(2)), load(3), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

void store_four(__m512i sum, int plane, std::uint8_t* out) {
    const __m128i by_channel = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, -1, -1, -1, -1);
    const __m128i pixels =
        _mm_shuffle_epi8(_mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, 2 * kWeightBits - kWarpShift)), by_channel);
    const int channels[3] = {_mm_extract_epi32(pixels, 0), _mm_extract_epi32(pixels, 1), _mm_extract_epi32(pixels, 2)};
    for (int c = 0; c < 3; ++c) std::memcpy(out + c * plane, &channels[c], 4);
}

// Computes four outputs at once, each in 128 bits: red, green, blue and an unused number. `pairs` is the number
// of pairs of taps along each axis, or 0 if only the pass has it.
template <int pairs>
void warp_pairs(const WarpPass& pass, std::uint8_t* planes) {
    const __m512i first_pair = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m512i second_pair = _mm512_broadcast_i32x4(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    const int pairs_x = pairs ? pairs : pass.taps_x / 2, pairs_y = pairs ? pairs : pass.taps_y / 2;
    for (int k = 0; k < pass.outputs; k += 4) {
        const std::uint8_t* from[4];
        const std::int16_t *weights_x[4], *weights_y[4];
        for (int i = 0; i < 4; ++i) {
            from[i] = pass.source + pass.offset[k + i];
            weights_x[i] = pass.table_x + pass.weights_x[k + i];
            weights_y[i] = pass.table_y + pass.weights_y[k + i];
        }
        const auto across = [&](int y) {
            __m512i sum = _mm512_setzero_si512();
            for (int pair = 0; pair < pairs_x; pair += 2) {
                const __m512i pixels = four_pixels(from, y * pass.stride + 6 * pair);
                sum = _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_shuffle_epi8(pixels, first_pair),
                                                              weight_pairs(weights_x, pair)));
                if (pair + 1 < pairs_x)
                    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_shuffle_epi8(pixels, second_pair),
                                                                  weight_pairs(weights_x, pair + 1)));
            }
            return sum;
        };
        __m512i sum = _mm512_set1_epi32(kWarpHalf);
        for (int pair = 0; pair < pairs_y; ++pair) {
            const __m512i both = _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(across(2 * pair), kWarpShift),
                                                         _mm512_slli_epi32(across(2 * pair + 1), 16 - kWarpShift));
            sum = _mm512_add_epi32(sum, _mm512_madd_epi16(both, weight_pairs(weights_y, pair)));
        }
        store_four(sum, pass.plane, planes + k);
    }
}

void warp_avx512(const WarpPass& pass, std::uint8_t* planes) {
    if (pass.taps_x == 2 && pass.taps_y == 2) return warp_pairs<1>(pass, planes);
    if (pass.taps_x == 4 && pass.taps_y == 4) return warp_pairs<2>(pass, planes);
    warp_pairs<0>(pass, planes);
}

}  // namespace

// Defined in apply_lut_vbmi.cpp.
void apply_lut_vbmi(const std::uint8_t* table, std::uint8_t* values, int count);

namespace {

void apply_lut_avx512(const std::uint8_t* table, std::uint8_t* values, int count) {
    (cpu_features().vbmi ? apply_lut_vbmi : apply_lut)(table, values, count);
}

}  // namespace

extern const StepKernels avx512_step_kernels;
constinit const StepKernels avx512_step_kernels = [] {
    StepKernels kernels = kStepLoops;
    kernels.apply_lut = apply_lut_avx512;
    kernels.warp = warp_avx512;
    return kernels;
}();

}  // namespace stoker
#endif
