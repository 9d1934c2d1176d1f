// The loops that undo PNG's filters. A file of each instruction set includes this one, so the namespace is unnamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "decode/png/unfilter.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace stoker::png {
namespace {

inline std::uint8_t sum(int a, int b) { return static_cast<std::uint8_t>(a + b); }

inline void undo_up(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) row[i] = sum(row[i], above[i]);
}

#if defined(__SSE2__)

// Takes all bytes of a pixel at once. The compiler cannot do that, as each pixel needs the pixel before. May read two
// bytes more, because a copy of three or six bytes goes through memory and takes four times as long.
template <std::size_t step>
__m128i load(const std::uint8_t* pixel) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, pixel, step == 3 ? 4 : step == 6 ? 8 : step);
    return _mm_cvtsi64_si128(static_cast<long long>(bytes));
}

template <std::size_t step>
void store(std::uint8_t* pixel, __m128i values) {
    const auto bytes = static_cast<std::uint64_t>(_mm_cvtsi128_si64(values));
    constexpr std::size_t first = step == 3 ? 2 : step == 6 ? 4 : step;
    std::memcpy(pixel, &bytes, first);
    if (step == 3) pixel[2] = static_cast<std::uint8_t>(bytes >> 16);
    const auto last = static_cast<std::uint16_t>(bytes >> 32);
    if (step == 6) std::memcpy(pixel + 4, &last, 2);
}

inline __m128i choose(__m128i mask, __m128i yes, __m128i no) {
#if defined(__SSE4_1__)
    return _mm_blendv_epi8(no, yes, mask);
#else
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
#endif
}

template <std::size_t step>
void undo_sub(std::uint8_t* row, std::size_t bytes) {
    __m128i left = _mm_setzero_si128();
    for (std::size_t i = 0; i + step <= bytes; i += step) store<step>(row + i, left = _mm_add_epi8(load<step>(row + i), left));
}

// The instruction for averages rounds up, and the filter rounds down. With inverted bits, the instruction rounds down:
// a sum of row and average, inverted, is the inverted average less the row.
template <std::size_t step>
void undo_average(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    const __m128i ones = _mm_set1_epi8(-1);
    __m128i left = ones;  // inverted
    for (std::size_t i = 0; i + step <= bytes; i += step) {
        const __m128i up = _mm_xor_si128(load<step>(above + i), ones);
        left = _mm_sub_epi8(_mm_avg_epu8(left, up), load<step>(row + i));
        store<step>(row + i, _mm_xor_si128(left, ones));
    }
}

// The predictor is `left` if it is nearest to left + up - corner, otherwise the nearer of `up` and `corner`. With t for
// 3 * corner - up - left, this is the larger of left and up if t is at most the smaller, the smaller if t is at
// least the larger, and otherwise `corner`.
template <std::size_t step>
void undo_paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    const __m128i zero = _mm_setzero_si128(), byte = _mm_set1_epi16(0xFF);
    __m128i left = zero, corner = zero;  // of 16 bits
    for (std::size_t i = 0; i + step <= bytes; i += step) {
        const __m128i up = _mm_unpacklo_epi8(load<step>(above + i), zero);
        const __m128i stored = _mm_unpacklo_epi8(load<step>(row + i), zero);
        const __m128i twice = _mm_add_epi16(corner, corner);
        const __m128i t = _mm_sub_epi16(_mm_add_epi16(twice, _mm_sub_epi16(corner, up)), left);
        const __m128i low = _mm_min_epi16(left, up), high = _mm_max_epi16(left, up);
        const __m128i below = choose(_mm_cmpgt_epi16(high, t), corner, low);
        const __m128i nearest = choose(_mm_cmpgt_epi16(t, low), below, high);
        left = _mm_and_si128(_mm_add_epi16(stored, nearest), byte);
        store<step>(row + i, _mm_packus_epi16(left, left));
        corner = up;
    }
}

#else

template <std::size_t step>
void undo_sub(std::uint8_t* row, std::size_t bytes) {
    for (std::size_t i = step; i < bytes; ++i) row[i] = sum(row[i], row[i - step]);
}

template <std::size_t step>
void undo_average(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) row[i] = sum(row[i], ((i < step ? 0 : row[i - step]) + above[i]) / 2);
}

// The predictor of the filter "Paeth".
inline int paeth(int left, int above, int corner) {
    const int from_left = std::abs(above - corner), from_above = std::abs(left - corner);
    const int from_corner = std::abs(left + above - 2 * corner);
    if (from_left <= from_above && from_left <= from_corner) return left;
    return from_above <= from_corner ? above : corner;
}

template <std::size_t step>
void undo_paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    for (std::size_t i = 0; i < step && i < bytes; ++i) row[i] = sum(row[i], above[i]);
    for (std::size_t i = step; i < bytes; ++i) row[i] = sum(row[i], paeth(row[i - step], above[i], above[i - step]));
}

#endif

template <std::size_t step>
bool undo(int filter, std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    switch (filter) {
        case 0: return true;
        case 1: return undo_sub<step>(row, bytes), true;
        case 2: return undo_up(row, above, bytes), true;
        case 3: return undo_average<step>(row, above, bytes), true;
        case 4: return undo_paeth<step>(row, above, bytes), true;
        default: return false;
    }
}

inline bool undo_by_step(int filter, std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::size_t step) {
    switch (step) {
        case 1: return undo<1>(filter, row, above, bytes);
        case 2: return undo<2>(filter, row, above, bytes);
        case 3: return undo<3>(filter, row, above, bytes);
        case 4: return undo<4>(filter, row, above, bytes);
        case 6: return undo<6>(filter, row, above, bytes);
        default: return undo<8>(filter, row, above, bytes);
    }
}

}  // namespace
}  // namespace stoker::png
