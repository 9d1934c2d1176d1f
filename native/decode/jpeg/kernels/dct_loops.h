// Inverse DCTs in plain C++, with the arithmetic of libjpeg-turbo's vector code (jidctint and jidctred): products of
// 16-bit numbers, sums of 32 bits, and saturation where vectors are packed. For coefficients of an encoder's size this
// is jidctint.c and jidctred.c; for others it is what libjpeg-turbo gives on x86.
#pragma once

#include <algorithm>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {
namespace {

// Constants of Loeffler, Ligtenberg and Moschytz (ICASSP 1989), in 13 bits of fraction.
constexpr int kConstantBits = 13;
constexpr int kPassBits = 2;
constexpr int k0_211 = 1730, k0_298 = 2446, k0_390 = 3196, k0_509 = 4176, k0_541 = 4433, k0_601 = 4926, k0_720 = 5906,
              k0_765 = 6270, k0_850 = 6967, k0_899 = 7373, k1_061 = 8697, k1_175 = 9633, k1_272 = 10426, k1_451 = 11893,
              k1_501 = 12299, k1_847 = 15137, k1_961 = 16069, k2_053 = 16819, k2_172 = 17799, k2_562 = 20995,
              k3_072 = 25172, k3_624 = 29692;

// Sums wrap around, as those of vectors do.
using Wide = std::uint32_t;

inline std::int16_t low(int value) { return static_cast<std::int16_t>(value); }
inline Wide times(std::int16_t a, int k) { return static_cast<Wide>(a * k); }
inline std::int16_t pack(Wide sum, int shift) {
    const int value = static_cast<std::int32_t>(sum + (Wide{1} << (shift - 1))) >> shift;
    return static_cast<std::int16_t>(std::clamp(value, -32768, 32767));
}
inline std::uint8_t to_sample(std::int16_t value) {
    return static_cast<std::uint8_t>(std::clamp<int>(value, -128, 127) + 128);
}
inline std::int16_t dequantise(const std::int16_t* coefficients, const std::uint16_t* quanta, int at) {
    return low(coefficients[at] * quanta[at]);
}

// One row or column of eight, `step` values apart.
inline void transform8(std::int16_t* data, int step, int shift) {
    std::int16_t in[8];
    for (int i = 0; i < 8; ++i) in[i] = data[i * step];
    const Wide sum04 = static_cast<Wide>(low(in[0] + in[4])) << kConstantBits;
    const Wide difference04 = static_cast<Wide>(low(in[0] - in[4])) << kConstantBits;
    const Wide t2 = times(in[2], k0_541) + times(in[6], k0_541 - k1_847);
    const Wide t3 = times(in[2], k0_541 + k0_765) + times(in[6], k0_541);
    const Wide even[4] = {sum04 + t3, difference04 + t2, difference04 - t2, sum04 - t3};
    const std::int16_t s73 = low(in[7] + in[3]), s51 = low(in[5] + in[1]);
    const Wide z3 = times(s73, k1_175 - k1_961) + times(s51, k1_175);
    const Wide z4 = times(s73, k1_175) + times(s51, k1_175 - k0_390);
    const Wide odd[4] = {times(in[7], -k0_899) + times(in[1], k1_501 - k0_899) + z4,
                         times(in[5], -k2_562) + times(in[3], k3_072 - k2_562) + z3,
                         times(in[5], k2_053 - k2_562) + times(in[3], -k2_562) + z4,
                         times(in[7], k0_298 - k0_899) + times(in[1], -k0_899) + z3};
    for (int i = 0; i < 4; ++i) {
        data[i * step] = pack(even[i] + odd[i], shift);
        data[(7 - i) * step] = pack(even[i] - odd[i], shift);
    }
}

// Whether all rows but the first are zero, apart from one that the transform does not use. Then the first pass is a shift,
// which wraps around.
inline bool has_one_row(const std::int16_t* coefficients, bool skip_row4) {
    for (int i = 8; i < kCoefficients; ++i)
        if (coefficients[i] != 0 && !(skip_row4 && i / 8 == 4)) return false;
    return true;
}

inline void plain_dct8(const DctBlock& block, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    std::int16_t data[kCoefficients];
    for (int i = 0; i < kCoefficients; ++i) data[i] = dequantise(block.coefficients, quanta, i);
    if (has_one_row(block.coefficients, false))
        for (int i = 0; i < kCoefficients; ++i) data[i] = i < 8 ? low(data[i] << kPassBits) : data[i % 8];
    else
        for (int x = 0; x < 8; ++x) transform8(data + x, 8, kConstantBits - kPassBits);
    for (int y = 0; y < 8; ++y) {
        transform8(data + 8 * y, 1, kConstantBits + kPassBits + 3);
        for (int x = 0; x < 8; ++x) block.samples[y * stride + x] = to_sample(data[8 * y + x]);
    }
}

// One row or column of seven, without the fifth, to four.
inline void transform4(const std::int16_t* in, int step, int shift, std::int16_t out[4]) {
    const auto at = [&](int i) { return in[i * step]; };
    const Wide t0 = static_cast<Wide>(at(0)) << (kConstantBits + 1);
    const Wide t2 = times(at(2), k1_847) + times(at(6), -k0_765);
    const Wide odd0 = times(at(1), k2_562) + times(at(3), k0_899) + times(at(5), -k0_601) + times(at(7), -k0_509);
    const Wide odd1 = times(at(1), k1_061) + times(at(3), -k2_172) + times(at(5), k1_451) + times(at(7), -k0_211);
    out[0] = pack(t0 + t2 + odd0, shift);
    out[1] = pack(t0 - t2 + odd1, shift);
    out[2] = pack(t0 - t2 - odd1, shift);
    out[3] = pack(t0 + t2 - odd0, shift);
}

inline void plain_dct4(const DctBlock& block, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    std::int16_t data[kCoefficients], rows[4][8] = {}, out[4];
    for (int i = 0; i < kCoefficients; ++i) data[i] = dequantise(block.coefficients, quanta, i);
    const bool one_row = has_one_row(block.coefficients, true);
    for (int x = 0; x < 8; ++x) {
        if (x == 4) continue;
        if (one_row)
            std::fill_n(out, 4, low(data[x] << kPassBits));
        else
            transform4(data + x, 8, kConstantBits - kPassBits + 1, out);
        for (int y = 0; y < 4; ++y) rows[y][x] = out[y];
    }
    for (int y = 0; y < 4; ++y) {
        transform4(rows[y], 1, kConstantBits + kPassBits + 4, out);
        for (int x = 0; x < 4; ++x) block.samples[y * stride + x] = to_sample(out[x]);
    }
}

// The sum of the odd inputs of a row or column of eight, to two.
inline Wide odd2(std::int16_t in1, std::int16_t in3, std::int16_t in5, std::int16_t in7) {
    return times(in1, k3_624) + times(in3, -k1_272) + times(in5, k0_850) + times(in7, -k0_720);
}

inline void plain_dct2(const DctBlock& block, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    constexpr int shift = kConstantBits - kPassBits + 2;
    constexpr Wide half = Wide{1} << (shift - 1);
    const auto at = [&](int y, int x) { return dequantise(block.coefficients, quanta, 8 * y + x); };
    std::int16_t rows[2][8] = {};
    std::int32_t first[2] = {};  // of each row, not packed
    for (const int x : {0, 1, 3, 5, 7}) {
        const Wide even = static_cast<Wide>(at(0, x)) << (kConstantBits + 2);
        const Wide odd = odd2(at(1, x), at(3, x), at(5, x), at(7, x));
        if (x == 0) {
            first[0] = static_cast<std::int32_t>(even + odd + half) >> shift;
            first[1] = static_cast<std::int32_t>(even - odd + half) >> shift;
        }
        rows[0][x] = pack(even + odd, shift);
        rows[1][x] = pack(even - odd, shift);
    }
    for (int y = 0; y < 2; ++y) {
        const Wide even = static_cast<Wide>(first[y]) << (kConstantBits + 2);
        const Wide odd = odd2(rows[y][1], rows[y][3], rows[y][5], rows[y][7]);
        block.samples[y * stride] = to_sample(pack(even + odd, kConstantBits + kPassBits + 5));
        block.samples[y * stride + 1] = to_sample(pack(even - odd, kConstantBits + kPassBits + 5));
    }
}

// jpeg_idct_1x1 of jidctred.c, whose table of limits wraps around at 1024.
inline void plain_dct1(const DctBlock& block, const std::uint16_t* quanta, std::ptrdiff_t) {
    const int value = ((block.coefficients[0] * quanta[0] + 4) >> 3) & 1023;
    *block.samples = static_cast<std::uint8_t>(value < 512 ? std::min(value + 128, 255) : std::max(value - 896, 0));
}

template <void (*transform)(const DctBlock&, const std::uint16_t*, std::ptrdiff_t)>
void each_block(const DctBlock* blocks, int count, const std::uint16_t* quanta, std::ptrdiff_t stride) {
    for (int i = 0; i < count; ++i) transform(blocks[i], quanta, stride);
}

}  // namespace
}  // namespace stoker::jpeg
