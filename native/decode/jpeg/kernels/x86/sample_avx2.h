// Loops over rows of samples for AVX2, of 16 samples or pixels at a time.
#pragma once

#include <immintrin.h>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {
namespace {

inline __m256i load_words(const std::uint8_t* bytes) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

inline __m256i times3(__m256i words) { return _mm256_add_epi16(words, _mm256_slli_epi16(words, 1)); }

// Stores the even and the odd samples, which are words of at most 255.
inline void store_pairs(std::uint8_t* out, __m256i even, __m256i odd) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

inline void avx2_h2v1(const std::uint8_t* row, int samples, std::uint8_t* out) {
    const __m256i one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);
    for (int i = 0; i < samples; i += 16) {
        const __m256i near = times3(load_words(row + i));
        const __m256i before = _mm256_add_epi16(load_words(row + i - 1), one);
        const __m256i after = _mm256_add_epi16(load_words(row + i + 1), two);
        store_pairs(out + 2 * i, _mm256_srli_epi16(_mm256_add_epi16(near, before), 2),
                    _mm256_srli_epi16(_mm256_add_epi16(near, after), 2));
    }
}

inline void avx2_h2v2(const std::uint8_t* near, const std::uint8_t* far, int samples, std::uint8_t* out) {
    const __m256i seven = _mm256_set1_epi16(7), eight = _mm256_set1_epi16(8);
    const auto column = [&](int i) { return _mm256_add_epi16(times3(load_words(near + i)), load_words(far + i)); };
    for (int i = 0; i < samples; i += 16) {
        const __m256i middle = times3(column(i));
        const __m256i before = _mm256_add_epi16(column(i - 1), eight), after = _mm256_add_epi16(column(i + 1), seven);
        store_pairs(out + 2 * i, _mm256_srli_epi16(_mm256_add_epi16(middle, before), 4),
                    _mm256_srli_epi16(_mm256_add_epi16(middle, after), 4));
    }
}

// Interleaves 16 samples each of red, green and blue.
inline void store_rgb(std::uint8_t* out, __m128i red, __m128i green, __m128i blue) {
    // The sample that comes to each byte of each third; -1: one of another colour.
    const __m128i shuffles[3][3] = {
        {_mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5),
         _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1),
         _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1)},
        {_mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),
         _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10),
         _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1)},
        {_mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1),
         _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1),
         _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)}};
    for (int i = 0; i < 3; ++i) {
        const __m128i third = _mm_or_si128(
            _mm_or_si128(_mm_shuffle_epi8(red, shuffles[i][0]), _mm_shuffle_epi8(green, shuffles[i][1])),
            _mm_shuffle_epi8(blue, shuffles[i][2]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * i), third);
    }
}

// The rounded products of 16-bit fixed point equal libjpeg's tables for every value of Cb and Cr.
inline void avx2_ycbcr_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int pixels,
                              std::uint8_t* rgb) {
    const __m256i centre = _mm256_set1_epi16(128), red_factor = _mm256_set1_epi16(13172);
    const __m256i blue_factor = _mm256_set1_epi16(-7471), half = _mm256_set1_epi32(1 << 15);
    // -0.34414 Cb + (1 - 0.71414) Cr; Cr is subtracted afterwards, as its factor does not fit into 16 bits.
    const __m256i green_factors = _mm256_set1_epi32((-22554 & 0xFFFF) | (65536 - 46802) << 16);
    for (int i = 0; i < pixels; i += 16) {
        const __m256i luma = load_words(y + i);
        const __m256i b = _mm256_sub_epi16(load_words(cb + i), centre);
        const __m256i r = _mm256_sub_epi16(load_words(cr + i), centre);
        const __m256i red = _mm256_add_epi16(_mm256_add_epi16(luma, r), _mm256_mulhrs_epi16(r, red_factor));
        const __m256i blue = _mm256_add_epi16(_mm256_add_epi16(luma, _mm256_slli_epi16(b, 1)),
                                              _mm256_mulhrs_epi16(b, blue_factor));
        const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(b, r), green_factors);
        const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(b, r), green_factors);
        const __m256i mixed = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                                                 _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
        const __m256i green = _mm256_add_epi16(_mm256_sub_epi16(luma, r), mixed);
        const __m256i red_green = _mm256_permute4x64_epi64(_mm256_packus_epi16(red, green), 0xD8);
        const __m256i blue_twice = _mm256_permute4x64_epi64(_mm256_packus_epi16(blue, blue), 0xD8);
        store_rgb(rgb + 3 * i, _mm256_castsi256_si128(red_green), _mm256_extracti128_si256(red_green, 1),
                  _mm256_castsi256_si128(blue_twice));
    }
}

inline void avx2_grey_to_rgb(const std::uint8_t* y, int pixels, std::uint8_t* rgb) {
    for (int i = 0; i < pixels; i += 16) {
        const __m128i luma = _mm_loadu_si128(reinterpret_cast<const __m128i*>(y + i));
        store_rgb(rgb + 3 * i, luma, luma, luma);
    }
}

}  // namespace
}  // namespace stoker::jpeg
