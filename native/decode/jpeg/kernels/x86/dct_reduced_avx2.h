// The inverse DCTs to 4 and 2 samples a side for AVX2. Each half of a vector holds a row of one of two blocks.
#pragma once

#include <cstring>

#include "decode/jpeg/kernels/x86/dct_avx2.h"

namespace stoker::jpeg {
namespace {

// The columns of transform4 in dct_loops.h; returns four rows.
inline void transform_columns4(const __m256i in[8], __m256i out[4]) {
    constexpr int shift = kConstantBits - kPassBits + 1;
    const Sums t0 = scaled<kConstantBits + 1, shift>(in[0]), t2 = RowPair(in[2], in[6]).products(k1_847, -k0_765);
    const RowPair pair13(in[1], in[3]), pair57(in[5], in[7]);
    const Sums odd0 = pair13.products(k2_562, k0_899) + pair57.products(-k0_601, -k0_509);
    const Sums odd1 = pair13.products(k1_061, -k2_172) + pair57.products(k1_451, -k0_211);
    out[0] = packed<shift>(t0 + t2 + odd0);
    out[1] = packed<shift>(t0 - t2 + odd1);
    out[2] = packed<shift>(t0 - t2 - odd1);
    out[3] = packed<shift>(t0 + t2 - odd0);
}

// The rows of transform4: returns the samples of each block, row after row.
inline __m256i transform_rows4(const __m256i rows[4]) {
    constexpr int shift = kConstantBits + kPassBits + 4;
    const __m256i even_low = _mm256_unpacklo_epi16(rows[0], rows[2]), even_high = _mm256_unpackhi_epi16(rows[0], rows[2]);
    const __m256i odd_low = _mm256_unpacklo_epi16(rows[1], rows[3]), odd_high = _mm256_unpackhi_epi16(rows[1], rows[3]);
    // Two columns each.
    const __m256i in01 = _mm256_unpacklo_epi16(even_low, odd_low), in23 = _mm256_unpackhi_epi16(even_low, odd_low);
    const __m256i in45 = _mm256_unpacklo_epi16(even_high, odd_high), in67 = _mm256_unpackhi_epi16(even_high, odd_high);
    const auto products = [](__m256i pair, int a, int b) { return _mm256_madd_epi16(pair, factor_pairs(a, b)); };
    const __m256i pair13 = _mm256_unpackhi_epi16(in01, in23), pair57 = _mm256_unpackhi_epi16(in45, in67);
    const __m256i t0 = scaled_upper<kConstantBits + 1, shift>(_mm256_unpacklo_epi16(_mm256_setzero_si256(), in01));
    const __m256i t2 = products(_mm256_unpacklo_epi16(in23, in67), k1_847, -k0_765);
    const __m256i odd0 = _mm256_add_epi32(products(pair13, k2_562, k0_899), products(pair57, -k0_601, -k0_509));
    const __m256i odd1 = _mm256_add_epi32(products(pair13, k1_061, -k2_172), products(pair57, k1_451, -k0_211));
    const __m256i outer = _mm256_add_epi32(t0, t2), inner = _mm256_sub_epi32(t0, t2);
    const __m256i left = packed<shift>({_mm256_add_epi32(outer, odd0), _mm256_add_epi32(inner, odd1)});
    const __m256i right = packed<shift>({_mm256_sub_epi32(inner, odd1), _mm256_sub_epi32(outer, odd0)});
    const __m128i by_rows = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i samples = _mm256_shuffle_epi8(_mm256_packs_epi16(left, right), _mm256_broadcastsi128_si256(by_rows));
    return _mm256_xor_si256(samples, _mm256_set1_epi8(-128));
}

inline void store_rows4(std::uint8_t* out, std::ptrdiff_t stride, __m128i samples) {
    alignas(16) std::uint8_t bytes[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes), samples);
    for (int y = 0; y < 4; ++y) std::memcpy(out + y * stride, bytes + 4 * y, 4);
}

inline void dct4_pair(const DctBlock& first, const DctBlock& second, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    __m256i in[8], rows[4];
    for (int i = 0; i < 8; ++i) in[i] = dequantised(first, second, quanta, i);
    if (!fits_14_bits(in[0])) [[unlikely]] {
        plain_dct4(first, quanta, stride);
        plain_dct4(second, quanta, stride);
        return;
    }
    transform_columns4(in, rows);
    const __m256i samples = transform_rows4(rows);
    store_rows4(first.samples, stride, _mm256_castsi256_si128(samples));
    store_rows4(second.samples, stride, _mm256_extracti128_si256(samples, 1));
}

// As plain_dct2 in dct_loops.h.
inline void dct2_pair(const DctBlock& first, const DctBlock& second, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    constexpr int shift = kConstantBits - kPassBits + 2, last_shift = kConstantBits + kPassBits + 5;
    const auto in = [&](int row) { return dequantised(first, second, quanta, row); };
    const Sums even = scaled<kConstantBits + 2, shift>(in(0));
    const Sums odd = RowPair(in(1), in(3)).products(k3_624, -k1_272) + RowPair(in(5), in(7)).products(k0_850, -k0_720);
    const Sums upper = even + odd, lower = even - odd;
    const __m256i factors = _mm256_setr_epi16(0, k3_624, 0, -k1_272, 0, k0_850, 0, -k0_720, 0, k3_624, 0, -k1_272, 0, k0_850,
                                              0, -k0_720);
    const __m256i products = _mm256_hadd_epi32(_mm256_madd_epi16(packed<shift>(upper), factors),
                                               _mm256_madd_epi16(packed<shift>(lower), factors));
    const __m256i odds = _mm256_hadd_epi32(products, products);
    const __m256i firsts = _mm256_srai_epi32(_mm256_unpacklo_epi32(upper.low, lower.low), shift);
    const __m256i evens = _mm256_add_epi32(_mm256_slli_epi32(firsts, kConstantBits + 2),
                                           _mm256_set1_epi32(1 << (last_shift - 1)));
    const __m256i both = _mm256_unpacklo_epi32(_mm256_add_epi32(evens, odds), _mm256_sub_epi32(evens, odds));
    const __m256i words = packed<last_shift>({both, both});
    const __m256i samples = _mm256_xor_si256(_mm256_packs_epi16(words, words), _mm256_set1_epi8(-128));
    const auto store = [&](std::uint8_t* out, int four) {
        std::memcpy(out, &four, 2);
        std::memcpy(out + stride, reinterpret_cast<const std::uint8_t*>(&four) + 2, 2);
    };
    store(first.samples, _mm256_extract_epi32(samples, 0));
    store(second.samples, _mm256_extract_epi32(samples, 4));
}

}  // namespace
}  // namespace stoker::jpeg
