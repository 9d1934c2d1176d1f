// The horizontal pass with AVX-512 VBMI: byte permutes bring the taps of many outputs into place at once.
#if defined(__x86_64__)
#include <immintrin.h>

#include "axis.h"
#include "kernels.h"

namespace stoker {
namespace {

constexpr __mmask64 kLowBytes = 0x5555555555555555;

// Up to four taps: the pixels of sixteen neighbouring outputs fit into two registers, into one if there are
// two taps, and one channel of them into a third.
constexpr int kSixteen = 16;

struct Pixels {
    __m512i low, high;
};

// Two taps of each output, as 16-bit numbers; `place` has their bytes.
template <int pairs>
__m512i pick(const Pixels& pixels, __m512i place) {
    if (pairs == 1) return _mm512_maskz_permutexvar_epi8(kLowBytes, place, pixels.low);
    return _mm512_maskz_permutex2var_epi8(kLowBytes, pixels.low, place, pixels.high);
}

template <int pairs>
void run(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    const __m512i half = _mm512_set1_epi32(1 << (kWeightBits - 1));
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int x = 0; x < pass.outputs; x += kSixteen) {
        const int last = x + kSixteen <= pass.outputs ? x + kSixteen - 1 : pass.outputs - 1;
        const int low = pass.first[x] < pass.first[last] ? pass.first[x] : pass.first[last];
        const std::uint8_t* from = rgb + 3 * static_cast<std::ptrdiff_t>(low);
        Pixels pixels{_mm512_loadu_si512(from), __m512i()};
        const std::int16_t* weights = pass.weights + static_cast<std::ptrdiff_t>(x) * 2 * pairs;
        __m512i pair_weights[2] = {_mm512_loadu_si512(weights)};
        if (pairs == 2) {
            pixels.high = _mm512_loadu_si512(from + 64);
            const __m512i behind = _mm512_loadu_si512(weights + 32);
            const __m512i before = pair_weights[0];
            pair_weights[0] = _mm512_permutex2var_epi32(before, even, behind);
            pair_weights[1] = _mm512_permutex2var_epi32(before, odd, behind);
        }
        const __m512i pixel = _mm512_sub_epi32(_mm512_loadu_si512(pass.first + x), _mm512_set1_epi32(low));
        const __m512i byte = _mm512_add_epi32(_mm512_add_epi32(pixel, pixel), pixel);
        __m512i place = _mm512_add_epi32(_mm512_or_si512(byte, _mm512_slli_epi32(byte, 16)),
                                         _mm512_set1_epi32(3 << 16));
        for (int c = 0; c < 3; ++c) {
            __m512i sum = _mm512_add_epi32(half, _mm512_madd_epi16(pick<pairs>(pixels, place), pair_weights[0]));
            if (pairs == 2) {
                const __m512i next = _mm512_add_epi8(place, _mm512_set1_epi8(6));
                sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pick<pairs>(pixels, next), pair_weights[1]));
            }
            _mm_storeu_si128(reinterpret_cast<__m128i*>(planes + c * pass.plane + x),
                             _mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, kWeightBits)));
            place = _mm512_add_epi8(place, _mm512_set1_epi8(1));
        }
    }
}

// Six taps: the pixels of five outputs fit into a register, and so do all three channels of them, in dwords:
// five red, five green, five blue.
constexpr int kFive = 5;

void run_six(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    constexpr int pairs = 3;
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
    for (int x = 0; x < outputs; x += kFive) {
        const int last = x + kFive <= outputs ? x + kFive - 1 : outputs - 1;
        const int low = first[x] < first[last] ? first[x] : first[last];
        const __m512i source = _mm512_loadu_si512(rgb + 3 * static_cast<std::ptrdiff_t>(low));
        const __m512i firsts = _mm512_permutexvar_epi32(output, _mm512_castsi256_si512(_mm256_loadu_si256(
                                                                    reinterpret_cast<const __m256i*>(first + x))));
        __m512i place = _mm512_add_epi32(
            _mm512_mullo_epi32(_mm512_sub_epi32(firsts, _mm512_set1_epi32(low)), place_of_pixel), place_in_pixel);
        const __m512i group_weights = _mm512_loadu_si512(weights + static_cast<std::ptrdiff_t>(x) * 2 * pairs);
        __m512i sum = half;
        for (int pair = 0; pair < pairs; ++pair) {
            const __m512i pixels = _mm512_maskz_permutexvar_epi8(kLowBytes, place, source);
            const __m512i pair_weights =
                _mm512_permutexvar_epi32(_mm512_add_epi32(first_pair, _mm512_set1_epi32(pair)), group_weights);
            sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pixels, pair_weights));
            place = _mm512_add_epi8(place, next_pair);
        }
        const __m128i result = _mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, kWeightBits));
        // Eight bytes are written and five of them meant: the next group overwrites the rest.
        std::uint8_t* to = planes + x;
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), result);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + plane), _mm_srli_si128(result, kFive));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2 * plane), _mm_srli_si128(result, 2 * kFive));
    }
}

}  // namespace

// For two to six taps, none of a negative weight.
void horizontal_vbmi(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    switch (pass.taps) {
        case 2: return run<1>(pass, rgb, planes);
        case 4: return run<2>(pass, rgb, planes);
        default: return run_six(pass, rgb, planes);
    }
}

}  // namespace stoker
#endif
