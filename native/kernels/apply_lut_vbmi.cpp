// The lookup of 64 values at once, in a table of 256 values that four registers hold (AVX-512 VBMI).
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

namespace stoker {

void apply_lut_vbmi(const std::uint8_t* table, std::uint8_t* values, int count) {
    const __m512i quarters[4] = {_mm512_loadu_si512(table), _mm512_loadu_si512(table + 64),
                                 _mm512_loadu_si512(table + 128), _mm512_loadu_si512(table + 192)};
    for (int x = 0; x < count; x += 64) {
        const __m512i levels = _mm512_loadu_si512(values + x);
        const __m512i low = _mm512_permutex2var_epi8(quarters[0], levels, quarters[1]);
        const __m512i high = _mm512_permutex2var_epi8(quarters[2], levels, quarters[3]);
        _mm512_storeu_si512(values + x, _mm512_mask_blend_epi8(_mm512_movepi8_mask(levels), low, high));
    }
}

}  // namespace stoker
#endif
