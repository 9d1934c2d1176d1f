// The inverse DCTs to 8 and 4 samples a side for NEON, with the sums of dct_loops.h.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "decode/jpeg/kernels/dct_loops.h"

namespace stoker::jpeg {
namespace {

// Sums of products, of the lower and the upper four columns.
struct Sums {
    int32x4_t low, high;

    Sums operator+(const Sums& other) const { return {vaddq_s32(low, other.low), vaddq_s32(high, other.high)}; }
    Sums operator-(const Sums& other) const { return {vsubq_s32(low, other.low), vsubq_s32(high, other.high)}; }
};

// Row `a` times `k` plus row `b` times `m`.
inline Sums products(int16x8_t a, int k, int16x8_t b, int m) {
    const auto first = static_cast<std::int16_t>(k), second = static_cast<std::int16_t>(m);
    return {vmlal_n_s16(vmull_n_s16(vget_low_s16(a), first), vget_low_s16(b), second),
            vmlal_high_n_s16(vmull_high_n_s16(a, first), b, second)};
}

// A row times 2 to the power of `bits`, plus half of the unit that the transform shifts down to 1.
template <int bits, int shift>
Sums scaled(int16x8_t row) {
    const int32x4_t half = vdupq_n_s32(1 << (shift - 1));
    return {vaddq_s32(vshll_n_s16(vget_low_s16(row), bits), half),
            vaddq_s32(vshll_n_s16(vget_high_s16(row), bits), half)};
}

template <int shift>
int16x8_t packed(const Sums& sums) {
    return vcombine_s16(vqmovn_s32(vshrq_n_s32(sums.low, shift)), vqmovn_s32(vshrq_n_s32(sums.high, shift)));
}

// The transform of the columns; as transform8 in dct_loops.h.
template <int shift>
inline void transform_columns(int16x8_t rows[8]) {
    const Sums t2 = products(rows[2], k0_541, rows[6], k0_541 - k1_847);
    const Sums t3 = products(rows[2], k0_541 + k0_765, rows[6], k0_541);
    const Sums sum04 = scaled<kConstantBits, shift>(vaddq_s16(rows[0], rows[4]));
    const Sums difference04 = scaled<kConstantBits, shift>(vsubq_s16(rows[0], rows[4]));
    const int16x8_t sum73 = vaddq_s16(rows[7], rows[3]), sum51 = vaddq_s16(rows[5], rows[1]);
    const Sums z3 = products(sum73, k1_175 - k1_961, sum51, k1_175);
    const Sums z4 = products(sum73, k1_175, sum51, k1_175 - k0_390);
    const Sums odd[4] = {products(rows[7], -k0_899, rows[1], k1_501 - k0_899) + z4,
                         products(rows[5], -k2_562, rows[3], k3_072 - k2_562) + z3,
                         products(rows[5], k2_053 - k2_562, rows[3], -k2_562) + z4,
                         products(rows[7], k0_298 - k0_899, rows[1], -k0_899) + z3};
    const Sums even[4] = {sum04 + t3, difference04 + t2, difference04 - t2, sum04 - t3};
    for (int i = 0; i < 4; ++i) {
        rows[i] = packed<shift>(even[i] + odd[i]);
        rows[7 - i] = packed<shift>(even[i] - odd[i]);
    }
}

inline void transpose(int16x8_t rows[8]) {
    int16x8_t a[8], b[8];
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = vzip1q_s16(rows[i], rows[i + 4]);
        a[2 * i + 1] = vzip2q_s16(rows[i], rows[i + 4]);
    }
    for (int i = 0; i < 4; ++i) {
        b[2 * i] = vzip1q_s16(a[i], a[i + 4]);
        b[2 * i + 1] = vzip2q_s16(a[i], a[i + 4]);
    }
    for (int i = 0; i < 4; ++i) {
        rows[2 * i] = vzip1q_s16(b[i], b[i + 4]);
        rows[2 * i + 1] = vzip2q_s16(b[i], b[i + 4]);
    }
}

inline int16x8_t dequantised(const DctBlock& block, const std::uint16_t* quanta, int row) {
    return vmulq_s16(vld1q_s16(block.coefficients + 8 * row), vreinterpretq_s16_u16(vld1q_u16(quanta + 8 * row)));
}

// Whether a row fits into 14 bits. If the first row does not, the result depends on whether the others are zero.
inline bool fits_14_bits(int16x8_t row) { return vmaxvq_u16(vreinterpretq_u16_s16(vabsq_s16(row))) <= 8191; }

inline uint8x8_t to_samples(int16x8_t values) {
    return veor_u8(vreinterpret_u8_s8(vqmovn_s16(values)), vdup_n_u8(0x80));
}

inline void neon_dct8(const DctBlock& block, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    int16x8_t rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = dequantised(block, quanta, i);
    if (!fits_14_bits(rows[0])) [[unlikely]] return plain_dct8(block, quanta, stride);
    transform_columns<kConstantBits - kPassBits>(rows);
    transpose(rows);
    transform_columns<kConstantBits + kPassBits + 3>(rows);
    transpose(rows);
    for (int i = 0; i < 8; ++i) vst1_u8(block.samples + i * stride, to_samples(rows[i]));
}

// As transform4 in dct_loops.h.
template <int shift>
inline void transform_columns4(const int16x8_t in[8], int16x8_t out[4]) {
    const Sums t0 = scaled<kConstantBits + 1, shift>(in[0]), t2 = products(in[2], k1_847, in[6], -k0_765);
    const Sums odd0 = products(in[1], k2_562, in[3], k0_899) + products(in[5], -k0_601, in[7], -k0_509);
    const Sums odd1 = products(in[1], k1_061, in[3], -k2_172) + products(in[5], k1_451, in[7], -k0_211);
    out[0] = packed<shift>(t0 + t2 + odd0);
    out[1] = packed<shift>(t0 - t2 + odd1);
    out[2] = packed<shift>(t0 - t2 - odd1);
    out[3] = packed<shift>(t0 + t2 - odd0);
}

inline void neon_dct4(const DctBlock& block, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    int16x8_t in[8], rows[4], columns[8];
    for (int i = 0; i < 8; ++i) in[i] = dequantised(block, quanta, i);
    if (!fits_14_bits(in[0])) [[unlikely]] return plain_dct4(block, quanta, stride);
    transform_columns4<kConstantBits - kPassBits + 1>(in, rows);
    std::int16_t turned[4 * 8];  // column by column
    const int16x8x4_t all{{rows[0], rows[1], rows[2], rows[3]}};
    vst4q_s16(turned, all);
    for (int i = 0; i < 8; ++i) {
        const int16x4_t column = vld1_s16(turned + 4 * i);
        columns[i] = vcombine_s16(column, column);
    }
    transform_columns4<kConstantBits + kPassBits + 4>(columns, rows);
    std::uint8_t samples[4 * 8];  // four rows, twice
    const uint8x8x4_t all_samples{{to_samples(rows[0]), to_samples(rows[1]), to_samples(rows[2]), to_samples(rows[3])}};
    vst4_u8(samples, all_samples);
    for (int y = 0; y < 4; ++y) std::memcpy(block.samples + y * stride, samples + 4 * y, 4);
}

}  // namespace
}  // namespace stoker::jpeg
