// The inverse DCT to 8 samples a side for AVX2. Each half of a vector holds a row of one of two blocks.
#pragma once

#include <immintrin.h>

#include "decode/jpeg/kernels/dct_loops.h"

namespace stoker::jpeg {
namespace {

// Sums of products, of the lower and the upper four columns of both blocks.
struct Sums {
    __m256i low, high;

    Sums operator+(const Sums& other) const {
        return {_mm256_add_epi32(low, other.low), _mm256_add_epi32(high, other.high)};
    }
    Sums operator-(const Sums& other) const {
        return {_mm256_sub_epi32(low, other.low), _mm256_sub_epi32(high, other.high)};
    }
};

// The factors of pairs of words, for _mm256_madd_epi16.
inline __m256i factor_pairs(int a, int b) {
    return _mm256_set1_epi32((a & 0xFFFF) | static_cast<int>(static_cast<unsigned>(b) << 16));
}

// Two rows, column by column.
struct RowPair {
    __m256i low, high;

    RowPair(__m256i first, __m256i second)
        : low(_mm256_unpacklo_epi16(first, second)), high(_mm256_unpackhi_epi16(first, second)) {}
    // The first row times `a` plus the second times `b`.
    Sums products(int a, int b) const {
        const __m256i factors = factor_pairs(a, b);
        return {_mm256_madd_epi16(low, factors), _mm256_madd_epi16(high, factors)};
    }
};

// Words in the upper halves of numbers of 32 bits, times 2 to the power of `bits`, plus half of the unit that the transform
// shifts down to 1.
template <int bits, int shift>
__m256i scaled_upper(__m256i words) {
    return _mm256_add_epi32(_mm256_srai_epi32(words, 16 - bits), _mm256_set1_epi32(1 << (shift - 1)));
}

// The same for a row.
template <int bits, int shift>
Sums scaled(__m256i row) {
    const RowPair upper(_mm256_setzero_si256(), row);
    return {scaled_upper<bits, shift>(upper.low), scaled_upper<bits, shift>(upper.high)};
}

template <int shift>
__m256i packed(const Sums& sums) {
    return _mm256_packs_epi32(_mm256_srai_epi32(sums.low, shift), _mm256_srai_epi32(sums.high, shift));
}

// The transform of the columns; as transform8 in dct_loops.h.
template <int shift>
inline void transform_columns(__m256i rows[8]) {
    const RowPair pair26(rows[2], rows[6]);
    const Sums t2 = pair26.products(k0_541, k0_541 - k1_847), t3 = pair26.products(k0_541 + k0_765, k0_541);
    const Sums sum04 = scaled<kConstantBits, shift>(_mm256_add_epi16(rows[0], rows[4]));
    const Sums difference04 = scaled<kConstantBits, shift>(_mm256_sub_epi16(rows[0], rows[4]));
    const RowPair sums(_mm256_add_epi16(rows[7], rows[3]), _mm256_add_epi16(rows[5], rows[1]));
    const Sums z3 = sums.products(k1_175 - k1_961, k1_175), z4 = sums.products(k1_175, k1_175 - k0_390);
    const RowPair pair71(rows[7], rows[1]), pair53(rows[5], rows[3]);
    const auto store = [&](int i, const Sums& even, const Sums& odd) {
        rows[i] = packed<shift>(even + odd);
        rows[7 - i] = packed<shift>(even - odd);
    };
    store(0, sum04 + t3, pair71.products(-k0_899, k1_501 - k0_899) + z4);
    store(1, difference04 + t2, pair53.products(-k2_562, k3_072 - k2_562) + z3);
    store(2, difference04 - t2, pair53.products(k2_053 - k2_562, -k2_562) + z4);
    store(3, sum04 - t3, pair71.products(k0_298 - k0_899, -k0_899) + z3);
}

// Transposes both blocks.
inline void transpose(__m256i rows[8]) {
    __m256i a[8], b[8];
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi16(rows[i], rows[i + 4]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(rows[i], rows[i + 4]);
    }
    for (int i = 0; i < 4; ++i) {
        b[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
        b[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (int i = 0; i < 4; ++i) {
        rows[2 * i] = _mm256_unpacklo_epi16(b[i], b[i + 4]);
        rows[2 * i + 1] = _mm256_unpackhi_epi16(b[i], b[i + 4]);
    }
}

inline __m256i load_rows(const DctBlock& first, const DctBlock& second, int row) {
    const auto* a = reinterpret_cast<const __m128i*>(first.coefficients + 8 * row);
    const auto* b = reinterpret_cast<const __m128i*>(second.coefficients + 8 * row);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a)), _mm_loadu_si128(b), 1);
}

inline __m256i dequantised(const DctBlock& first, const DctBlock& second, const std::uint16_t* quanta, int row) {
    const __m128i factors = _mm_loadu_si128(reinterpret_cast<const __m128i*>(quanta + 8 * row));
    return _mm256_mullo_epi16(load_rows(first, second, row), _mm256_broadcastsi128_si256(factors));
}

inline void store_rows(const DctBlock& first, const DctBlock& second, std::ptrdiff_t stride, int row, __m256i samples) {
    const auto store = [&](std::uint8_t* out, __m128i two_rows) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(out), two_rows);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(out + stride), _mm_unpackhi_epi64(two_rows, two_rows));
    };
    store(first.samples + row * stride, _mm256_castsi256_si128(samples));
    store(second.samples + row * stride, _mm256_extracti128_si256(samples, 1));
}

// Whether a row fits into 14 bits. If the first row does not, the result depends on whether the others are zero.
inline bool fits_14_bits(__m256i row) {
    const __m256i size = _mm256_max_epu16(_mm256_abs_epi16(row), _mm256_set1_epi16(8191));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(size, _mm256_set1_epi16(8191))) == -1;
}

inline void dct8_pair(const DctBlock& first, const DctBlock& second, const std::uint16_t* quanta,
                      std::ptrdiff_t stride) {
    __m256i rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = dequantised(first, second, quanta, i);
    if (!fits_14_bits(rows[0])) [[unlikely]] {
        plain_dct8(first, quanta, stride);
        plain_dct8(second, quanta, stride);
        return;
    }
    transform_columns<kConstantBits - kPassBits>(rows);
    transpose(rows);
    transform_columns<kConstantBits + kPassBits + 3>(rows);
    transpose(rows);
    const __m256i centre = _mm256_set1_epi8(-128);
    for (int i = 0; i < 8; i += 2)
        store_rows(first, second, stride, i, _mm256_xor_si256(_mm256_packs_epi16(rows[i], rows[i + 1]), centre));
}

template <void (*transform)(const DctBlock&, const DctBlock&, const std::uint16_t*, std::ptrdiff_t)>
void each_pair(const DctBlock* blocks, int count, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    int i = 0;
    for (; i + 2 <= count; i += 2) transform(blocks[i], blocks[i + 1], quanta, stride);
    if (i < count) transform(blocks[i], blocks[i], quanta, stride);
}

}  // namespace
}  // namespace stoker::jpeg
