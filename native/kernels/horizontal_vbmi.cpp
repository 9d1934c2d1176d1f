// The horizontal pass with AVX-512 VBMI and VNNI: byte permutes bring the taps of many outputs into indices at
// once. Where they come from is worked out once for all rows.
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/kernels.h"

namespace stoker {
namespace {

// Outputs whose taps, of one channel, fill a register: 32 of two taps each, 16 of four, 8 of eight.
struct Group {
    __m512i indices;         // where the bytes of the first channel come from, among 128 behind `begin`
    __m512i weights[2];
    std::ptrdiff_t begin;  // in a row of the source
};
static_assert(sizeof(Group) == kGroupBytes);

// Sixteen pixels' first bytes.
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

// Weights are two signed bytes each, as the instruction takes: 256 times one and the other.
void split(__m512i low, __m512i high, __m512i weights[2]) {
    const auto coarse = [](__m512i w) { return _mm512_srai_epi16(_mm512_add_epi16(w, _mm512_set1_epi16(128)), 8); };
    weights[0] = bytes(coarse(low), coarse(high));
    weights[1] = bytes(low, high);
}

// False where a weight is not between 0 and 1.
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

// The first four taps of all outputs, then the others.
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

// False where taps are too far apart, too.
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

// `levels` makes bytes of a group's taps of one channel, and stores them.
template <int step, class Levels>
void run(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes, Levels levels) {
    const int outputs = pass.outputs, plane = pass.plane;
    const auto* group = static_cast<const Group*>(pass.table);
    for (int x = 0; x < outputs; x += step, ++group) {
        const std::uint8_t* from = rgb + group->begin;
        const __m512i low = _mm512_loadu_si512(from), high = _mm512_loadu_si512(from + 64);
        const __m512i weights[2] = {group->weights[0], group->weights[1]};
        __m512i indices = group->indices;
        for (int c = 0; c < 3; ++c) {
            levels(_mm512_permutex2var_epi8(low, indices, high), weights, planes + c * plane + x);
            indices = _mm512_add_epi8(indices, _mm512_set1_epi8(1));
        }
    }
}

// The weights being w and 1 - w, the sum is b + (b - a) * -w, and the instruction rounds as all others do.
void run_two(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    run<32>(pass, rgb, planes, [](__m512i taps, const __m512i* weights, std::uint8_t* out) {
        const __m512i a = _mm512_and_si512(taps, _mm512_set1_epi16(0xFF)), b = _mm512_srli_epi16(taps, 8);
        const __m512i sum = _mm512_add_epi16(b, _mm512_mulhrs_epi16(_mm512_sub_epi16(b, a), weights[0]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi16_epi8(sum));
    });
}

// Sums of four taps, and of what is to be added, in 1/256.
__m512i sum_four(__m512i taps, const __m512i* weights, int first) {
    const __m512i coarse = _mm512_dpbusd_epi32(_mm512_set1_epi32(first), taps, weights[0]);
    return _mm512_dpbusd_epi32(_mm512_slli_epi32(coarse, 8), taps, weights[1]);
}

constexpr int kHalf = 1 << (kWeightBits - 1 - 8);

// Lobes lead out of the range of levels; to clip always costs next to nothing.
__m128i levels(__m512i sum) {
    return _mm512_cvtusepi32_epi8(_mm512_max_epi32(_mm512_srai_epi32(sum, kWeightBits), _mm512_setzero_si512()));
}

__m128i levels(__m256i sum) {
    return _mm256_cvtusepi32_epi8(_mm256_max_epi32(_mm256_srai_epi32(sum, kWeightBits), _mm256_setzero_si256()));
}

void run_four(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    run<16>(pass, rgb, planes, [](__m512i taps, const __m512i* weights, std::uint8_t* out) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), levels(sum_four(taps, weights, kHalf)));
    });
}

void run_eight(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    run<8>(pass, rgb, planes, [](__m512i taps, const __m512i* weights, std::uint8_t* out) {
        const __m512i sums = sum_four(taps, weights, kHalf / 2);
        const __m256i sum = _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(out), levels(sum));
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
