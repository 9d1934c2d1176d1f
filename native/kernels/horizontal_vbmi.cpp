// The horizontal pass with AVX-512 VBMI and VNNI. A permutation of bytes collects the taps of many outputs at
// once; its indices are computed once for all rows.
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/kernels.h"

namespace stoker {
namespace {

// Outputs whose taps of one channel fill a register: 32 outputs of two taps, 16 of four, or 8 of eight.
struct Group {
    __m512i indices;  // of the first channel's bytes, among the 128 bytes from `begin` on
    __m512i weights[2];
    std::ptrdiff_t begin;  // in bytes of a row of the source
};
static_assert(sizeof(Group) == kGroupBytes);

// Returns the indices of the first bytes of sixteen pixels.
__m512i first_bytes(const std::int32_t* first, int low) {
    const __m512i pixel = _mm512_sub_epi32(_mm512_loadu_si512(first), _mm512_set1_epi32(low));
    return _mm512_add_epi32(_mm512_add_epi32(pixel, pixel), pixel);
}

__m512i words(__m512i low, __m512i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)), _mm512_cvtepi32_epi16(high), 1);
}

__m512i bytes(__m512i low, __m512i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)), _mm512_cvtepi16_epi8(high), 1);
}

// Splits weights into two signed bytes each, as the instruction takes them: weight = 256 * first + second.
void split(__m512i low, __m512i high, __m512i weights[2]) {
    const auto coarse = [](__m512i w) { return _mm512_srai_epi16(_mm512_add_epi16(w, _mm512_set1_epi16(128)), 8); };
    weights[0] = bytes(coarse(low), coarse(high));
    weights[1] = bytes(low, high);
}

// Returns false if a weight is not between 0 and 1.
bool prepare_two(const HorizontalPass& pass, int x, int low, Group& group) {
    const __m512i indices = words(first_bytes(pass.first + x, low), first_bytes(pass.first + x + 16, low));
    group.indices = _mm512_add_epi8(_mm512_or_si512(indices, _mm512_slli_epi16(indices, 8)), _mm512_set1_epi16(3 << 8));
    const std::int16_t* weights = pass.weights + 2 * static_cast<std::ptrdiff_t>(x);
    const __m512i first = words(_mm512_loadu_si512(weights), _mm512_loadu_si512(weights + 32));
    group.weights[0] = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_add_epi16(first, first));
    return _mm512_cmpgt_epu16_mask(first, _mm512_set1_epi16(1 << kWeightBits)) == 0;
}

bool prepare_four(const HorizontalPass& pass, int x, int low, Group& group) {
    const __m512i indices = _mm512_mullo_epi32(first_bytes(pass.first + x, low), _mm512_set1_epi32(0x01010101));
    group.indices = _mm512_add_epi8(indices, _mm512_set1_epi32(0x09060300));
    const std::int16_t* weights = pass.weights + 4 * static_cast<std::ptrdiff_t>(x);
    split(_mm512_loadu_si512(weights), _mm512_loadu_si512(weights + 32), group.weights);
    return true;
}

// The first half of the register has the first four taps of all outputs, the second half has the others.
bool prepare_eight(const HorizontalPass& pass, int x, int low, Group& group) {
    const __m512i indices = _mm512_mullo_epi32(first_bytes(pass.first + x, low), _mm512_set1_epi32(0x01010101));
    const __m512i taps = _mm512_add_epi8(_mm512_shuffle_i64x2(indices, indices, 0x44), _mm512_set1_epi32(0x09060300));
    group.indices = _mm512_add_epi8(taps, _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi8(12), 1));
    alignas(64) std::int16_t weights[2][8][4] = {};
    for (int i = 0; i < 8; ++i)
        for (int t = 0; t < pass.taps; ++t)
            weights[t / 4][i][t % 4] = pass.weights[static_cast<std::ptrdiff_t>(x + i) * pass.taps + t];
    split(_mm512_load_si512(weights[0]), _mm512_load_si512(weights[1]), group.weights);
    return true;
}

// Returns false also if taps of a group are too far apart.
template <int step>
bool prepare(HorizontalPass& pass, bool (*prepare_group)(const HorizontalPass&, int, int, Group&)) {
    auto* group = static_cast<Group*>(pass.table);
    for (int x = 0; x < pass.outputs; x += step, ++group) {
        const int last = (x + step < pass.outputs ? x + step : pass.outputs) - 1;
        const bool forwards = pass.first[x] < pass.first[last];
        const int low = pass.first[forwards ? x : last], high = pass.first[forwards ? last : x];
        group->begin = 3 * static_cast<std::ptrdiff_t>(low);
        if (3 * (high - low + pass.taps) > 128 || !prepare_group(pass, x, low, *group)) return false;
    }
    return true;
}

// `store` computes the values of a group from the taps of one channel, and stores them.
template <int step, class Store>
void run(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes, Store store) {
    const int outputs = pass.outputs, plane = pass.plane;
    const auto* group = static_cast<const Group*>(pass.table);
    for (int x = 0; x < outputs; x += step, ++group) {
        const std::uint8_t* from = rgb + group->begin;
        const __m512i low = _mm512_loadu_si512(from), high = _mm512_loadu_si512(from + 64);
        const __m512i weights[2] = {group->weights[0], group->weights[1]};
        __m512i indices = group->indices;
        for (int c = 0; c < 3; ++c) {
            store(_mm512_permutex2var_epi8(low, indices, high), weights, planes + c * plane + x);
            indices = _mm512_add_epi8(indices, _mm512_set1_epi8(1));
        }
    }
}

// With weights w and 1 - w the sum is b + (b - a) * -w. The instruction rounds as the other kernels do.
void run_two(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    run<32>(pass, rgb, planes, [](__m512i taps, const __m512i* weights, std::uint8_t* out) {
        const __m512i a = _mm512_and_si512(taps, _mm512_set1_epi16(0xFF)), b = _mm512_srli_epi16(taps, 8);
        const __m512i sum = _mm512_add_epi16(b, _mm512_mulhrs_epi16(_mm512_sub_epi16(b, a), weights[0]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi16_epi8(sum));
    });
}

// Returns the sums of four taps each, plus `first` in units of 256.
__m512i sum_four(__m512i taps, const __m512i* weights, int first) {
    const __m512i coarse = _mm512_dpbusd_epi32(_mm512_set1_epi32(first), taps, weights[0]);
    return _mm512_dpbusd_epi32(_mm512_slli_epi32(coarse, 8), taps, weights[1]);
}

constexpr int kHalf = 1 << (kWeightBits - 1 - 8);

// Clips, because negative lobes leave the range of uint8. Clipping takes almost no time for other filters.
__m128i to_bytes(__m512i sum) {
    return _mm512_cvtusepi32_epi8(_mm512_max_epi32(_mm512_srai_epi32(sum, kWeightBits), _mm512_setzero_si512()));
}

__m128i to_bytes(__m256i sum) {
    return _mm256_cvtusepi32_epi8(_mm256_max_epi32(_mm256_srai_epi32(sum, kWeightBits), _mm256_setzero_si256()));
}

void run_four(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    run<16>(pass, rgb, planes, [](__m512i taps, const __m512i* weights, std::uint8_t* out) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), to_bytes(sum_four(taps, weights, kHalf)));
    });
}

void run_eight(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    run<8>(pass, rgb, planes, [](__m512i taps, const __m512i* weights, std::uint8_t* out) {
        const __m512i sums = sum_four(taps, weights, kHalf / 2);
        const __m256i sum = _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(out), to_bytes(sum));
    });
}

}  // namespace

bool prepare_vbmi(HorizontalPass& pass) {
    if (pass.taps == 2) {
        pass.run = run_two;
        return prepare<32>(pass, prepare_two);
    }
    pass.run = pass.taps == 4 ? run_four : run_eight;
    return pass.taps <= 8 && (pass.taps == 4 ? prepare<16>(pass, prepare_four) : prepare<8>(pass, prepare_eight));
}

}  // namespace stoker
#endif
