// The horizontal pass with AVX-512 VBMI: five output pixels at once, all their source pixels in one
// register of 64 bytes, each pair of taps brought into place by one byte permute.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "axis.h"
#include "kernels.h"

namespace stoker {
namespace {

constexpr int kGroup = 5;  // pixels of three dwords in a register of sixteen

// For each group of outputs: its first source byte, the places of the first taps, and for each pair of
// taps the weights.
struct GroupHeader {
    std::int32_t first_byte;
    std::int32_t unused[15];
    std::uint8_t place[64];
};

int group_bytes(int taps) { return static_cast<int>(sizeof(GroupHeader)) + taps / 2 * 64; }

bool fill_group(const HorizontalPass& pass, int x, std::uint8_t* table) {
    const int count = pass.outputs - x < kGroup ? pass.outputs - x : kGroup;
    int low = pass.first[x], high = low;
    for (int i = 1; i < count; ++i) {
        const int first = pass.first[x + i];
        low = first < low ? first : low;
        high = first > high ? first : high;
    }
    if (3 * (high + pass.taps - low) > 64) return false;
    GroupHeader header{};
    std::memset(table, 0, static_cast<std::size_t>(group_bytes(pass.taps)));
    header.first_byte = 3 * low;
    for (int i = 0; i < kGroup; ++i) {
        const int output = i < count ? x + i : x + count - 1;
        const int from = 3 * (pass.first[output] - low);
        for (int c = 0; c < 3; ++c) {
            const int dword = kGroup * c + i;
            header.place[4 * dword] = static_cast<std::uint8_t>(from + c);
            header.place[4 * dword + 2] = static_cast<std::uint8_t>(from + c + 3);
            for (int t = 0; t < pass.taps; t += 2)
                std::memcpy(table + sizeof(GroupHeader) + t / 2 * 64 + 4 * dword,
                            pass.weights + static_cast<std::ptrdiff_t>(output) * pass.taps + t, 4);
        }
    }
    std::memcpy(table, &header, sizeof header);
    return true;
}

}  // namespace

// Fills the table; false where the taps of five outputs do not fit into a register.
bool prepare_vbmi(const HorizontalPass& pass) {
    if (3 * pass.taps > 64) return false;
    std::uint8_t* group = pass.table;
    for (int x = 0; x < pass.outputs; x += kGroup, group += group_bytes(pass.taps))
        if (!fill_group(pass, x, group)) return false;
    return true;
}

namespace {

// `pairs` of taps, known at compile time for the common numbers (0: any number).
template <int pairs>
void run(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    constexpr __mmask64 low_bytes = 0x5555555555555555;
    const __m512i half = _mm512_set1_epi32(1 << (kWeightBits - 1));
    const __m512i next_pair = _mm512_set1_epi8(6);
    const int count = pairs > 0 ? pairs : pass.taps / 2;
    const int outputs = pass.outputs;
    std::uint8_t* red = planes;
    std::uint8_t* green = planes + pass.plane;
    std::uint8_t* blue = planes + 2 * pass.plane;
    const std::uint8_t* group = pass.table;
    for (int x = 0; x < outputs; x += kGroup) {
        std::int32_t first_byte;
        std::memcpy(&first_byte, group, 4);
        const __m512i source = _mm512_loadu_si512(rgb + first_byte);
        __m512i place = _mm512_loadu_si512(group + offsetof(GroupHeader, place));
        group += sizeof(GroupHeader);
        __m512i sum = half;
        for (int pair = 0; pair < count; ++pair, group += 64) {
            const __m512i pixels = _mm512_maskz_permutexvar_epi8(low_bytes, place, source);
            sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pixels, _mm512_loadu_si512(group)));
            place = _mm512_add_epi8(place, next_pair);
        }
        const __m128i result = _mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, kWeightBits));
        // Eight bytes are written and five of them meant: the next group overwrites the rest.
        _mm_storel_epi64(reinterpret_cast<__m128i*>(red + x), result);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(green + x), _mm_srli_si128(result, kGroup));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(blue + x), _mm_srli_si128(result, 2 * kGroup));
    }
}

}  // namespace

void horizontal_vbmi(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    switch (pass.taps) {
        case 2: return run<1>(pass, rgb, planes);
        case 4: return run<2>(pass, rgb, planes);
        case 6: return run<3>(pass, rgb, planes);
        default: return run<0>(pass, rgb, planes);
    }
}

}  // namespace stoker
#endif
