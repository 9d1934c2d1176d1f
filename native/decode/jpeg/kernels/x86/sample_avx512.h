// Loops over rows of samples for AVX-512 with byte permutations (VBMI), of 32 samples or 64 pixels at a time.
#pragma once

#include <immintrin.h>

#include <array>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {
namespace {

inline __m512i load_words512(const std::uint8_t* bytes) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
}

inline __m512i times3(__m512i words) { return _mm512_add_epi16(words, _mm512_slli_epi16(words, 1)); }

inline void avx512_h2v2(const std::uint8_t* near, const std::uint8_t* far, int samples, std::uint8_t* out) {
    const __m512i seven = _mm512_set1_epi16(7), eight = _mm512_set1_epi16(8);
    const auto column = [&](int i) { return _mm512_add_epi16(times3(load_words512(near + i)), load_words512(far + i)); };
    for (int i = 0; i < samples; i += 32) {
        const __m512i middle = times3(column(i));
        const __m512i before = _mm512_add_epi16(column(i - 1), eight), after = _mm512_add_epi16(column(i + 1), seven);
        const __m512i even = _mm512_srli_epi16(_mm512_add_epi16(middle, before), 4);
        const __m512i odd = _mm512_srli_epi16(_mm512_add_epi16(middle, after), 4);
        _mm512_storeu_si512(out + 2 * i, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
    }
}

// The order of three colours in 192 bytes: indices into red and green, and then into these bytes and blue.
struct Interleaving {
    alignas(64) std::array<std::array<std::uint8_t, 64>, 3> red_green, blue;
};
constexpr Interleaving kInterleaving = [] {
    Interleaving indices{};
    for (unsigned third = 0; third < 3; ++third)
        for (unsigned i = 0; i < 64; ++i) {
            const unsigned byte = 64 * third + i, pixel = byte / 3, colour = byte % 3;
            indices.red_green[third][i] = static_cast<std::uint8_t>(pixel + 64 * (colour == 1));
            indices.blue[third][i] = static_cast<std::uint8_t>(colour == 2 ? 64 + pixel : i);
        }
    return indices;
}();

inline void store_rgb512(std::uint8_t* out, __m512i red, __m512i green, __m512i blue) {
    for (std::size_t third = 0; third < 3; ++third) {
        const __m512i mixed = _mm512_permutex2var_epi8(red, _mm512_load_si512(kInterleaving.red_green[third].data()), green);
        const __m512i all = _mm512_permutex2var_epi8(mixed, _mm512_load_si512(kInterleaving.blue[third].data()), blue);
        _mm512_storeu_si512(out + 64 * third, all);
    }
}

// The colours of 32 pixels, in words; see avx2_ycbcr_to_rgb.
struct Colours {
    __m512i red, green, blue;

    Colours(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr) {
        const __m512i centre = _mm512_set1_epi16(128), half = _mm512_set1_epi32(1 << 15);
        const __m512i green_factors = _mm512_set1_epi32((-22554 & 0xFFFF) | (65536 - 46802) << 16);
        const __m512i luma = load_words512(y), b = _mm512_sub_epi16(load_words512(cb), centre);
        const __m512i r = _mm512_sub_epi16(load_words512(cr), centre);
        red = _mm512_add_epi16(_mm512_add_epi16(luma, r), _mm512_mulhrs_epi16(r, _mm512_set1_epi16(13172)));
        blue = _mm512_add_epi16(_mm512_add_epi16(luma, _mm512_slli_epi16(b, 1)),
                                _mm512_mulhrs_epi16(b, _mm512_set1_epi16(-7471)));
        const __m512i low = _mm512_madd_epi16(_mm512_unpacklo_epi16(b, r), green_factors);
        const __m512i high = _mm512_madd_epi16(_mm512_unpackhi_epi16(b, r), green_factors);
        const __m512i mixed = _mm512_packs_epi32(_mm512_srai_epi32(_mm512_add_epi32(low, half), 16),
                                                 _mm512_srai_epi32(_mm512_add_epi32(high, half), 16));
        green = _mm512_add_epi16(_mm512_sub_epi16(luma, r), mixed);
    }
};

inline __m512i packed_colours(__m512i first, __m512i second) {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(order, _mm512_packus_epi16(first, second));
}

inline void avx512_ycbcr_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int pixels,
                                std::uint8_t* rgb) {
    for (int i = 0; i < pixels; i += 64) {
        const Colours first(y + i, cb + i, cr + i), second(y + i + 32, cb + i + 32, cr + i + 32);
        store_rgb512(rgb + 3 * i, packed_colours(first.red, second.red), packed_colours(first.green, second.green),
                     packed_colours(first.blue, second.blue));
    }
}

}  // namespace
}  // namespace stoker::jpeg
