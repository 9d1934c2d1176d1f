// PNG's filters undone for several rows at once. A pixel needs the pixel before it, so a row alone leaves most of a
// register empty, and waits. Here each lane of a register has a pixel of another row, two pixels after the row above.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "decode/png/unfilter.h"

namespace stoker::png {
namespace {

// With a delay of one pixel, a lane would wait for the lane before it.
constexpr std::size_t kDelay = 2;
constexpr std::size_t kBefore = 32;  // zeros before a row in scratch memory, with which the last lane begins
constexpr std::size_t kBehind = 64;  // bytes after a row that may be read and written

// How pixels of `step` bytes lie in registers: in lanes of a power of two of bytes.
template <std::size_t step>
struct Lanes {
    static constexpr std::size_t kLane = step == 3 ? 4 : step == 6 ? 8 : step;
    static constexpr std::size_t kCount = 16 / kLane;  // of rows, and of the pixels that are read and written at once

    static __m128i load(const std::uint8_t* pixels) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels));
        if constexpr (step == 3) return _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
        if constexpr (step == 6) return _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1));
        return bytes;
    }

    static void store(std::uint8_t* pixels, __m128i lanes) {
        if constexpr (step == 3) lanes = _mm_shuffle_epi8(lanes, _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
        if constexpr (step == 6) lanes = _mm_shuffle_epi8(lanes, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1));
        std::memcpy(pixels, &lanes, kCount * step);
    }

    static __m128i unpack_low(__m128i a, __m128i b) {
        if constexpr (kLane == 1) return _mm_unpacklo_epi8(a, b);
        if constexpr (kLane == 2) return _mm_unpacklo_epi16(a, b);
        if constexpr (kLane == 4) return _mm_unpacklo_epi32(a, b);
        return _mm_unpacklo_epi64(a, b);
    }

    static __m128i unpack_high(__m128i a, __m128i b) {
        if constexpr (kLane == 1) return _mm_unpackhi_epi8(a, b);
        if constexpr (kLane == 2) return _mm_unpackhi_epi16(a, b);
        if constexpr (kLane == 4) return _mm_unpackhi_epi32(a, b);
        return _mm_unpackhi_epi64(a, b);
    }

    static void transpose(__m128i (&rows)[kCount]) {
        for (std::size_t rounds = kCount; rounds > 1; rounds /= 2) {
            __m128i mixed[kCount];
            for (std::size_t i = 0; i < kCount / 2; ++i) {
                mixed[2 * i] = unpack_low(rows[i], rows[i + kCount / 2]);
                mixed[2 * i + 1] = unpack_high(rows[i], rows[i + kCount / 2]);
            }
            std::copy_n(mixed, kCount, rows);
        }
    }
};

// The bytes of the rows that have a filter.
struct Masks {
    alignas(16) std::uint8_t lanes[kFilters][16] = {};

    __m128i of(int filter) const { return _mm_load_si128(reinterpret_cast<const __m128i*>(lanes[filter])); }
};

// The neighbour that is nearest to left + up - corner. It is the larger of left and up if that is at least twice as far
// from the corner as the smaller, the smaller in the opposite case, and else the corner. A distance to the other side of the
// corner counts as 0.
__m128i paeth(__m128i left, __m128i up, __m128i corner) {
    const __m128i low = _mm_min_epu8(left, up), high = _mm_max_epu8(left, up), zero = _mm_setzero_si128();
    const __m128i to_low = _mm_subs_epu8(corner, low), to_high = _mm_subs_epu8(high, corner);
    const __m128i takes_low = _mm_cmpeq_epi8(_mm_subs_epu8(_mm_adds_epu8(to_high, to_high), to_low), zero);
    const __m128i takes_high = _mm_cmpeq_epi8(_mm_subs_epu8(_mm_adds_epu8(to_low, to_low), to_high), zero);
    return _mm_blendv_epi8(_mm_blendv_epi8(corner, high, takes_high), low, takes_low);
}

__m128i average(__m128i left, __m128i up) {  // rounded down
    return _mm_sub_epi8(_mm_avg_epu8(left, up), _mm_and_si128(_mm_xor_si128(left, up), _mm_set1_epi8(1)));
}

// Undoes the filters of as many rows as there are lanes. `rows` have kBefore zeros in front.
template <std::size_t step>
void undo_group(const Masks& masks, const std::uint8_t* above, std::uint8_t* rows, std::size_t stride, std::size_t pixels) {
    using In = Lanes<step>;
    const __m128i sub = masks.of(1), up = masks.of(2), mean = masks.of(3), nearest = masks.of(4);
    const __m128i first = _mm_srli_si128(_mm_set1_epi8(-1), 16 - static_cast<int>(In::kLane));
    __m128i left = _mm_setzero_si128(), before = left, corner = left;
    for (std::size_t x = 0; x < pixels + kDelay * (In::kCount - 1); x += In::kCount) {
        __m128i lanes[In::kCount];
        for (std::size_t r = 0; r < In::kCount; ++r) lanes[r] = In::load(rows + r * stride + x * step - r * kDelay * step);
        In::transpose(lanes);
        __m128i entering = x < pixels ? In::load(above + x * step) : _mm_setzero_si128();
        for (__m128i& values : lanes) {
            const __m128i upper = _mm_or_si128(_mm_slli_si128(before, In::kLane), _mm_and_si128(entering, first));
            entering = _mm_srli_si128(entering, In::kLane);
            const __m128i simple = _mm_or_si128(_mm_or_si128(_mm_and_si128(left, sub), _mm_and_si128(upper, up)),
                                                _mm_and_si128(average(left, upper), mean));
            const __m128i predicted = _mm_or_si128(simple, _mm_and_si128(paeth(left, upper, corner), nearest));
            before = left;
            corner = upper;
            values = left = _mm_add_epi8(values, predicted);
        }
        In::transpose(lanes);
        for (std::size_t r = 0; r < In::kCount; ++r) In::store(rows + r * stride + x * step - r * kDelay * step, lanes[r]);
    }
}

template <std::size_t step>
void undo(const FilteredRows& rows, std::vector<std::uint8_t>& scratch) {
    using In = Lanes<step>;
    const std::size_t stride = kBefore + rows.bytes + kBehind;
    scratch.assign(stride * (In::kCount + 1), 0);
    std::uint8_t *above = scratch.data() + kBefore, *lines = above + stride;
    for (std::size_t i = 0; i < rows.count; i += In::kCount) {
        const std::size_t count = std::min(In::kCount, rows.count - i);
        Masks masks;
        bool any = false;
        for (std::size_t r = 0; r < count; ++r) {
            std::memset(masks.lanes[*rows.row(i + r)] + r * In::kLane, 0xFF, In::kLane);
            std::memcpy(lines + r * stride, rows.row(i + r) + 1, rows.bytes);
            any |= *rows.row(i + r) != 0;
        }
        if (any) undo_group<step>(masks, above, lines, stride, (rows.bytes + step - 1) / step);
        for (std::size_t r = 0; any && r < count; ++r) std::memcpy(rows.row(i + r) + 1, lines + r * stride, rows.bytes);
        std::memcpy(above, lines + (In::kCount - 1) * stride, rows.bytes);
    }
}

void undo_by_step(const FilteredRows& rows, std::vector<std::uint8_t>& scratch) {
    switch (rows.step) {
        case 1: return undo<1>(rows, scratch);
        case 2: return undo<2>(rows, scratch);
        case 3: return undo<3>(rows, scratch);
        case 4: return undo<4>(rows, scratch);
        case 6: return undo<6>(rows, scratch);
        default: return undo<8>(rows, scratch);
    }
}

}  // namespace

extern const UndoFilters undo_filters_avx2;
const UndoFilters undo_filters_avx2 = undo_by_step;

}  // namespace stoker::png
#endif
