#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "kernels/steps/step_kernels.h"
#include "kernels/steps/step_loops.h"

namespace stoker {
namespace {

// Returns a pair of weights of two outputs, each repeated over its 128 bits.
__m256i weight_pairs(const std::int16_t* const weights[2], int pair) {
    std::int32_t values[2];
    for (int i = 0; i < 2; ++i) std::memcpy(&values[i], weights[i] + 2 * pair, 4);
    return _mm256_setr_m128i(_mm_set1_epi32(values[0]), _mm_set1_epi32(values[1]));
}

__m256i two_pixels(const std::uint8_t* const from[2], std::ptrdiff_t at) {
    const auto load = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from[i] + at)); };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load(0)), load(1), 1);
}

void store_two(__m256i sum, int plane, std::uint8_t* out) {
    alignas(32) std::int32_t values[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(values), _mm256_srai_epi32(sum, 2 * kWeightBits - kWarpShift));
    for (int c = 0; c < 3; ++c) {
        out[c * plane] = static_cast<std::uint8_t>(values[c]);
        out[c * plane + 1] = static_cast<std::uint8_t>(values[4 + c]);
    }
}

// Computes two outputs at once, each in 128 bits: red, green, blue and an unused number. `pairs` is the number
// of pairs of taps along each axis, or 0 if only the pass has it.
template <int pairs>
void warp_pairs(const WarpPass& pass, std::uint8_t* planes) {
    const __m256i first_pair = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i second_pair = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    const int pairs_x = pairs ? pairs : pass.taps_x / 2, pairs_y = pairs ? pairs : pass.taps_y / 2;
    for (int k = 0; k < pass.outputs; k += 2) {
        const std::uint8_t* from[2];
        const std::int16_t *weights_x[2], *weights_y[2];
        for (int i = 0; i < 2; ++i) {
            from[i] = pass.source + pass.offset[k + i];
            weights_x[i] = pass.table_x + pass.weights_x[k + i];
            weights_y[i] = pass.table_y + pass.weights_y[k + i];
        }
        const auto across = [&](int y) {
            __m256i sum = _mm256_setzero_si256();
            for (int pair = 0; pair < pairs_x; pair += 2) {
                const __m256i pixels = two_pixels(from, y * pass.stride + 6 * pair);
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, first_pair),
                                                              weight_pairs(weights_x, pair)));
                if (pair + 1 < pairs_x)
                    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, second_pair),
                                                                  weight_pairs(weights_x, pair + 1)));
            }
            return sum;
        };
        __m256i sum = _mm256_set1_epi32(kWarpHalf);
        for (int pair = 0; pair < pairs_y; ++pair) {
            const __m256i both = _mm256_blend_epi16(_mm256_srli_epi32(across(2 * pair), kWarpShift),
                                                    _mm256_slli_epi32(across(2 * pair + 1), 16 - kWarpShift), 0xAA);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(both, weight_pairs(weights_y, pair)));
        }
        store_two(sum, pass.plane, planes + k);
    }
}

void warp_avx2(const WarpPass& pass, std::uint8_t* planes) {
    if (pass.taps_x == 2 && pass.taps_y == 2) return warp_pairs<1>(pass, planes);
    if (pass.taps_x == 4 && pass.taps_y == 4) return warp_pairs<2>(pass, planes);
    warp_pairs<0>(pass, planes);
}

}  // namespace

extern const StepKernels avx2_step_kernels;
constinit const StepKernels avx2_step_kernels = [] {
    StepKernels kernels = kStepLoops;
    kernels.warp = warp_avx2;
    return kernels;
}();

}  // namespace stoker
#endif
