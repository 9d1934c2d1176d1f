// The horizontal pass with AVX2, which the table of AVX-512 uses, too.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/kernels.h"

namespace stoker {
namespace {

// Returns the sums of one output: 32-bit red, green, blue and an unused number in each half, which are to be added.
inline __m256i pixel_sum(const std::uint8_t* source, const std::int16_t* weights, int taps) {
    // For each channel, the low half has pixels 0 and 1 side by side, the high half has pixels 2 and 3.
    const __m256i spread = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                            6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const __m256i spread_weights =
        _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,  //
                         4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    const auto products = [&](const std::uint8_t* pixels, __m128i four) {
        const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels)));
        return _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, spread),
                                 _mm256_shuffle_epi8(_mm256_broadcastq_epi64(four), spread_weights));
    };
    __m256i sum = _mm256_setzero_si256();
    int t = 0;
    for (; t + 4 <= taps; t += 4)
        sum = _mm256_add_epi32(sum, products(source + 3 * t, _mm_loadu_si64(weights + t)));
    if (t < taps) sum = _mm256_add_epi32(sum, products(source + 3 * t, _mm_loadu_si32(weights + t)));
    return sum;
}

inline void horizontal_avx2(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    const __m256i half = _mm256_set1_epi32(1 << (kWeightBits - 1));
    const __m128i by_channel = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, -1, -1, -1, -1);
    const auto sum = [&](int x) {
        return pixel_sum(rgb + 3 * static_cast<std::ptrdiff_t>(pass.first[x]),
                         pass.weights + static_cast<std::ptrdiff_t>(x) * pass.taps, pass.taps);
    };
    const auto two = [&](__m256i a, __m256i b) {  // the sums of two outputs, one in each half
        const __m256i total =
            _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
        return _mm256_srai_epi32(_mm256_add_epi32(total, half), kWeightBits);
    };
    for (int x = 0; x < pass.outputs; x += 4) {
        const int last = pass.outputs - 1;
        const auto clamp = [&](int i) { return i < last ? i : last; };
        const __m256i words = _mm256_packs_epi32(two(sum(x), sum(clamp(x + 1))),
                                                 two(sum(clamp(x + 2)), sum(clamp(x + 3))));
        // The low half has outputs 0 and 2, the high half has outputs 1 and 3.
        const __m256i bytes = _mm256_packus_epi16(words, words);
        const __m128i pixels = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
        const __m128i result = _mm_shuffle_epi8(pixels, by_channel);
        const int channels[3] = {_mm_extract_epi32(result, 0), _mm_extract_epi32(result, 1),
                                 _mm_extract_epi32(result, 2)};
        for (int c = 0; c < 3; ++c) std::memcpy(planes + c * pass.plane + x, &channels[c], 4);
    }
}

}  // namespace
}  // namespace stoker
