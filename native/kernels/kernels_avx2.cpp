#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/axis_loops.h"
#include "kernels/interleave.h"
#include "kernels/kernels.h"
#include "kernels/kernels_avx2.h"
#include "kernels/store_kernels.h"

namespace stoker {
namespace {

// The sums of 32 bytes, before the shift.
struct Sums {
    __m256i part[4];

    void add(__m256i a, __m256i b, __m256i weights) {
        const __m256i zero = _mm256_setzero_si256();
        const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
        const auto product = [&](__m256i pairs) { return _mm256_madd_epi16(pairs, weights); };
        part[0] = _mm256_add_epi32(part[0], product(_mm256_unpacklo_epi8(low, zero)));
        part[1] = _mm256_add_epi32(part[1], product(_mm256_unpackhi_epi8(low, zero)));
        part[2] = _mm256_add_epi32(part[2], product(_mm256_unpacklo_epi8(high, zero)));
        part[3] = _mm256_add_epi32(part[3], product(_mm256_unpackhi_epi8(high, zero)));
    }
    __m256i bytes() const {  // packing restores the order before unpacking
        const auto shifted = [&](int i) { return _mm256_srai_epi32(part[i], kWeightBits); };
        return _mm256_packus_epi16(_mm256_packs_epi32(shifted(0), shifted(1)),
                                   _mm256_packs_epi32(shifted(2), shifted(3)));
    }
};

__m256i load(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

// With weights w and 1 - w the sum is b + (b - a) * -w. The instruction rounds as the sums of others do.
void vertical_two(const VerticalPass& pass, std::uint8_t* out) {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i minus = _mm256_set1_epi16(static_cast<short>(-2 * pass.weights[0]));
    const auto between = [&](__m256i a, __m256i b) {
        return _mm256_add_epi16(b, _mm256_mulhrs_epi16(_mm256_sub_epi16(b, a), minus));
    };
    const std::uint8_t *first = pass.rows[0], *second = pass.rows[1];
    for (int x = 0; x < pass.bytes; x += 32) {
        const __m256i a = load(first + x), b = load(second + x);
        const __m256i low = between(_mm256_unpacklo_epi8(a, zero), _mm256_unpacklo_epi8(b, zero));
        const __m256i high = between(_mm256_unpackhi_epi8(a, zero), _mm256_unpackhi_epi8(b, zero));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), _mm256_packus_epi16(low, high));
    }
}

void vertical(const VerticalPass& pass, std::uint8_t* out) {
    if (is_between(pass)) return vertical_two(pass, out);
    const __m256i half = _mm256_set1_epi32(1 << (kWeightBits - 1));
    for (int x = 0; x < pass.bytes; x += 32) {
        Sums sums{{half, half, half, half}};
        for (int t = 0; t < pass.taps; t += 2) {
            std::int32_t pair;
            std::memcpy(&pair, pass.weights + t, 4);
            if (pair != 0) sums.add(load(pass.rows[t] + x), load(pass.rows[t + 1] + x), _mm256_set1_epi32(pair));
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), sums.bytes());
    }
}

void prepare(HorizontalPass& pass) { pass.run = horizontal_avx2; }

}  // namespace

extern const Kernels avx2_kernels;
constinit const Kernels avx2_kernels = {
    .axis = axis,
    .prepare = prepare,
    .vertical = vertical,
    .store = store_row,
    .interleave = interleave,
    .deinterleave = deinterleave,
};

}  // namespace stoker
#endif
