#if defined(__x86_64__)
#include <immintrin.h>

#include "axis.h"
#include "kernels.h"
#include "kernels_avx2.h"
#include "store_kernels.h"

namespace stoker {
namespace {

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
    __m512i bytes() const {  // packing undoes the order that unpacking gave
        const auto shifted = [&](int i) { return _mm512_srai_epi32(part[i], kWeightBits); };
        return _mm512_packus_epi16(_mm512_packs_epi32(shifted(0), shifted(1)),
                                   _mm512_packs_epi32(shifted(2), shifted(3)));
    }
};

void vertical(const VerticalPass& pass, std::uint8_t* out) {
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

// Defined in horizontal_vbmi.cpp, for up to six taps without lobes.
void horizontal_vbmi(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes);

namespace {

void horizontal(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    static const bool vbmi = __builtin_cpu_supports("avx512vbmi");
    if (vbmi && pass.taps <= 6 && !pass.lobes)
        horizontal_vbmi(pass, rgb, planes);
    else
        horizontal_avx2(pass, rgb, planes);
}

}  // namespace

extern const Kernels avx512_kernels;
const Kernels avx512_kernels = {horizontal, vertical, store_row};

}  // namespace stoker
#endif
