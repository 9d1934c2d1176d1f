#include "decode/png/unfilter.h"

#include <cstdlib>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace stoker::png {
namespace {

// The predictor of the filter "Paeth".
int paeth(int left, int above, int corner) {
    const int from_left = std::abs(above - corner), from_above = std::abs(left - corner);
    const int from_corner = std::abs(left + above - 2 * corner);
    if (from_left <= from_above && from_left <= from_corner) return left;
    return from_above <= from_corner ? above : corner;
}

std::uint8_t sum(int a, int b) { return static_cast<std::uint8_t>(a + b); }

void undo_sub(std::uint8_t* row, std::size_t bytes, std::size_t step) {
    for (std::size_t i = step; i < bytes; ++i) row[i] = sum(row[i], row[i - step]);
}

void undo_up(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) row[i] = sum(row[i], above[i]);
}

void undo_average(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::size_t step) {
    for (std::size_t i = 0; i < bytes; ++i) row[i] = sum(row[i], ((i < step ? 0 : row[i - step]) + above[i]) / 2);
}

void undo_paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::size_t step) {
    for (std::size_t i = 0; i < step && i < bytes; ++i) row[i] = sum(row[i], above[i]);
    for (std::size_t i = step; i < bytes; ++i)
        row[i] = sum(row[i], paeth(row[i - step], above[i], above[i - step]));
}

#if defined(__SSE2__)

// All bytes of a pixel at once. The compiler cannot do that, as each pixel needs the one before it. May read two bytes
// more: a copy of three or six bytes would take a detour through memory, which is four times as slow.
template <std::size_t step>
__m128i load(const std::uint8_t* pixel) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, pixel, step <= 4 ? 4 : 8);
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

template <std::size_t step>
void undo_sub_by_pixel(std::uint8_t* row, std::size_t bytes) {
    __m128i left = _mm_setzero_si128();
    for (std::size_t i = 0; i + step <= bytes; i += step) store<step>(row + i, left = _mm_add_epi8(load<step>(row + i), left));
}

template <std::size_t step>
void undo_average_by_pixel(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    __m128i left = _mm_setzero_si128();
    const __m128i one = _mm_set1_epi8(1);
    for (std::size_t i = 0; i + step <= bytes; i += step) {
        const __m128i up = load<step>(above + i);
        // The instruction rounds up, the filter rounds down.
        const __m128i average = _mm_sub_epi8(_mm_avg_epu8(left, up), _mm_and_si128(_mm_xor_si128(left, up), one));
        store<step>(row + i, left = _mm_add_epi8(load<step>(row + i), average));
    }
}

__m128i absolute(__m128i values) { return _mm_max_epi16(values, _mm_sub_epi16(_mm_setzero_si128(), values)); }

__m128i choose(__m128i mask, __m128i yes, __m128i no) {
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

template <std::size_t step>
void undo_paeth_by_pixel(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    const __m128i zero = _mm_setzero_si128();
    __m128i left = zero, corner = zero;  // of 16 bits
    for (std::size_t i = 0; i + step <= bytes; i += step) {
        const __m128i up = _mm_unpacklo_epi8(load<step>(above + i), zero);
        __m128i from_left = _mm_sub_epi16(up, corner), from_above = _mm_sub_epi16(left, corner);
        const __m128i from_corner = absolute(_mm_add_epi16(from_left, from_above));
        from_left = absolute(from_left);
        from_above = absolute(from_above);
        const __m128i least = _mm_min_epi16(from_corner, _mm_min_epi16(from_left, from_above));
        const __m128i nearest = choose(_mm_cmpeq_epi16(least, from_left), left,
                                       choose(_mm_cmpeq_epi16(least, from_above), up, corner));
        const __m128i stored = _mm_unpacklo_epi8(load<step>(row + i), zero);
        left = _mm_and_si128(_mm_add_epi16(stored, nearest), _mm_set1_epi16(0xFF));
        store<step>(row + i, _mm_packus_epi16(left, left));
        corner = up;
    }
}

template <std::size_t step>
void undo_by_pixel(int filter, std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) {
    if (filter == 1) return undo_sub_by_pixel<step>(row, bytes);
    if (filter == 3) return undo_average_by_pixel<step>(row, above, bytes);
    undo_paeth_by_pixel<step>(row, above, bytes);
}

// Returns false if there is no faster way for pixels of so many bytes.
bool undo_by_pixel(int filter, std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::size_t step) {
    switch (step) {
        case 3: return undo_by_pixel<3>(filter, row, above, bytes), true;
        case 4: return undo_by_pixel<4>(filter, row, above, bytes), true;
        case 6: return undo_by_pixel<6>(filter, row, above, bytes), true;
        case 8: return undo_by_pixel<8>(filter, row, above, bytes), true;
        default: return false;
    }
}

#else

bool undo_by_pixel(int, std::uint8_t*, const std::uint8_t*, std::size_t, std::size_t) { return false; }

#endif

}  // namespace

bool undo_filter(int filter, std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::size_t step) {
    if (filter == 0) return true;
    if (filter == 2) return undo_up(row, above, bytes), true;
    if (filter > 4 || undo_by_pixel(filter, row, above, bytes, step)) return filter <= 4;
    if (filter == 1) undo_sub(row, bytes, step);
    if (filter == 3) undo_average(row, above, bytes, step);
    if (filter == 4) undo_paeth(row, above, bytes, step);
    return true;
}

}  // namespace stoker::png
