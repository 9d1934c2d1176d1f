// The horizontal pass with AVX-512 VBMI: five output pixels at once, all their source pixels in one
// register of 64 bytes, each pair of taps brought into place by one byte permute.
#if defined(__x86_64__)
#include <immintrin.h>

#include "axis.h"
#include "kernels.h"

namespace stoker {
namespace {

constexpr int kGroup = 5;  // pixels of three dwords in a register of sixteen: five red, five green, five blue

// `pairs` of taps an output.
template <int pairs>
void run(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    constexpr __mmask64 low_bytes = 0x5555555555555555;
    const __m512i half = _mm512_set1_epi32(1 << (kWeightBits - 1));
    const __m512i next_pair = _mm512_set1_epi8(6);
    // Output and channel of each dword.
    const __m512i output = _mm512_setr_epi32(0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0);
    const __m512i channel = _mm512_setr_epi32(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0);
    // A dword holds two taps, three bytes apart, as 16-bit numbers.
    const __m512i both_taps = _mm512_set1_epi32(0x00010001);
    const __m512i place_in_pixel = _mm512_add_epi32(_mm512_mullo_epi32(channel, both_taps), _mm512_set1_epi32(3 << 16));
    const __m512i place_of_pixel = _mm512_set1_epi32(3 * 0x00010001);
    const __m512i first_pair = _mm512_mullo_epi32(output, _mm512_set1_epi32(pairs));
    const int outputs = pass.outputs, plane = pass.plane;
    const std::int32_t* first = pass.first;
    const std::int16_t* weights = pass.weights;
    for (int x = 0; x < outputs; x += kGroup) {
        const int last = x + kGroup <= outputs ? x + kGroup - 1 : outputs - 1;
        const int low = first[x] < first[last] ? first[x] : first[last];
        const __m512i source = _mm512_loadu_si512(rgb + 3 * static_cast<std::ptrdiff_t>(low));
        const __m512i firsts = _mm512_permutexvar_epi32(output, _mm512_castsi256_si512(_mm256_loadu_si256(
                                                                    reinterpret_cast<const __m256i*>(first + x))));
        __m512i place = _mm512_add_epi32(
            _mm512_mullo_epi32(_mm512_sub_epi32(firsts, _mm512_set1_epi32(low)), place_of_pixel), place_in_pixel);
        const __m512i group_weights = _mm512_loadu_si512(weights + static_cast<std::ptrdiff_t>(x) * 2 * pairs);
        __m512i sum = half;
        for (int pair = 0; pair < pairs; ++pair) {
            const __m512i pixels = _mm512_maskz_permutexvar_epi8(low_bytes, place, source);
            const __m512i pair_weights =
                _mm512_permutexvar_epi32(_mm512_add_epi32(first_pair, _mm512_set1_epi32(pair)), group_weights);
            sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pixels, pair_weights));
            place = _mm512_add_epi8(place, next_pair);
        }
        const __m128i result = _mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, kWeightBits));
        // Eight bytes are written and five of them meant: the next group overwrites the rest.
        std::uint8_t* to = planes + x;
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), result);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + plane), _mm_srli_si128(result, kGroup));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2 * plane), _mm_srli_si128(result, 2 * kGroup));
    }
}

}  // namespace

// For two to six taps: then the pixels of a group, and its weights, fit into a register each.
void horizontal_vbmi(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    switch (pass.taps) {
        case 2: return run<1>(pass, rgb, planes);
        case 4: return run<2>(pass, rgb, planes);
        default: return run<3>(pass, rgb, planes);
    }
}

}  // namespace stoker
#endif
