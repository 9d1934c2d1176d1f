#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/axis_loops.h"
#include "cpu/cpu_features.h"
#include "kernels/interleave.h"
#include "kernels/kernels.h"
#include "kernels/kernels_avx2.h"
#include "kernels/store_kernels.h"

namespace stoker {
namespace {

// The sums of 64 bytes, before the shift.
struct Sums {
    __m512i part[4];

    void add(__m512i a, __m512i b, __m512i weights) {
        const __m512i zero = _mm512_setzero_si512();
        const __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
        const auto product = [&](__m512i pairs) { return _mm512_madd_epi16(pairs, weights); };
        part[0] = _mm512_add_epi32(part[0], product(_mm512_unpacklo_epi8(low, zero)));
        part[1] = _mm512_add_epi32(part[1], product(_mm512_unpackhi_epi8(low, zero)));
        part[2] = _mm512_add_epi32(part[2], product(_mm512_unpacklo_epi8(high, zero)));
        part[3] = _mm512_add_epi32(part[3], product(_mm512_unpackhi_epi8(high, zero)));
    }
    __m512i bytes() const {  // packing restores the order before unpacking
        const auto shifted = [&](int i) { return _mm512_srai_epi32(part[i], kWeightBits); };
        return _mm512_packus_epi16(_mm512_packs_epi32(shifted(0), shifted(1)),
                                   _mm512_packs_epi32(shifted(2), shifted(3)));
    }
};

// With weights w and 1 - w the sum is b + (b - a) * -w. The instruction rounds as the sums of others do.
void vertical_two(const VerticalPass& pass, std::uint8_t* out) {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i minus = _mm512_set1_epi16(static_cast<short>(-2 * pass.weights[0]));
    const auto between = [&](__m512i a, __m512i b) {
        return _mm512_add_epi16(b, _mm512_mulhrs_epi16(_mm512_sub_epi16(b, a), minus));
    };
    const std::uint8_t *first = pass.rows[0], *second = pass.rows[1];
    for (int x = 0; x < pass.bytes; x += 64) {
        const __m512i a = _mm512_loadu_si512(first + x), b = _mm512_loadu_si512(second + x);
        const __m512i low = between(_mm512_unpacklo_epi8(a, zero), _mm512_unpacklo_epi8(b, zero));
        const __m512i high = between(_mm512_unpackhi_epi8(a, zero), _mm512_unpackhi_epi8(b, zero));
        _mm512_storeu_si512(out + x, _mm512_packus_epi16(low, high));
    }
}

void vertical(const VerticalPass& pass, std::uint8_t* out) {
    if (is_between(pass)) return vertical_two(pass, out);
    const __m512i half = _mm512_set1_epi32(1 << (kWeightBits - 1));
    for (int x = 0; x < pass.bytes; x += 64) {
        Sums sums{{half, half, half, half}};
        for (int t = 0; t < pass.taps; t += 2) {
            std::int32_t pair;
            std::memcpy(&pair, pass.weights + t, 4);
            if (pair != 0)
                sums.add(_mm512_loadu_si512(pass.rows[t] + x), _mm512_loadu_si512(pass.rows[t + 1] + x),
                         _mm512_set1_epi32(pair));
        }
        _mm512_storeu_si512(out + x, sums.bytes());
    }
}

}  // namespace

// Defined in horizontal_vbmi.cpp. Returns false for a pass that it cannot run.
bool prepare_vbmi(HorizontalPass& pass);

namespace {

void prepare(HorizontalPass& pass) {
    const bool able = cpu_features().vbmi && cpu_features().vnni;
    if (!able || !prepare_vbmi(pass)) pass.run = horizontal_avx2;
}

}  // namespace

extern const Kernels avx512_kernels;
constinit const Kernels avx512_kernels = {
    .axis = axis,
    .prepare = prepare,
    .vertical = vertical,
    .store = store_row,
    .interleave = interleave,
    .deinterleave = deinterleave,
};

}  // namespace stoker
#endif
