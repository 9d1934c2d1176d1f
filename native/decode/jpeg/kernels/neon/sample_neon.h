// Loops over rows of samples for NEON, of 8 samples or 16 pixels at a time.
#pragma once

#include <arm_neon.h>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {
namespace {

// Stores 8 even and 8 odd samples in turn: words that are divided by 2 to the power of `shift`.
template <int shift>
void store_pairs(std::uint8_t* out, uint16x8_t even, uint16x8_t odd) {
    const uint8x8x2_t pairs{{vshrn_n_u16(even, shift), vshrn_n_u16(odd, shift)}};
    vst2_u8(out, pairs);
}

inline void neon_h2v1(const std::uint8_t* row, int samples, std::uint8_t* out) {
    const uint8x8_t three = vdup_n_u8(3);
    const uint16x8_t one = vdupq_n_u16(1), two = vdupq_n_u16(2);
    for (int i = 0; i < samples; i += 8) {
        const uint16x8_t near = vmull_u8(vld1_u8(row + i), three);
        store_pairs<2>(out + 2 * i, vaddw_u8(vaddq_u16(near, one), vld1_u8(row + i - 1)),
                       vaddw_u8(vaddq_u16(near, two), vld1_u8(row + i + 1)));
    }
}

inline void neon_h2v2(const std::uint8_t* near, const std::uint8_t* far, int samples, std::uint8_t* out) {
    const uint8x8_t three = vdup_n_u8(3);
    const uint16x8_t seven = vdupq_n_u16(7), eight = vdupq_n_u16(8);
    const auto column = [&](int i) { return vaddw_u8(vmull_u8(vld1_u8(near + i), three), vld1_u8(far + i)); };
    for (int i = 0; i < samples; i += 8) {
        const uint16x8_t middle = vmulq_n_u16(column(i), 3);
        store_pairs<4>(out + 2 * i, vaddq_u16(vaddq_u16(middle, column(i - 1)), eight),
                       vaddq_u16(vaddq_u16(middle, column(i + 1)), seven));
    }
}

// The colours of 8 pixels; the rounded products equal libjpeg's tables, as in avx2_ycbcr_to_rgb.
struct Colours {
    uint8x8_t red, green, blue;

    Colours(uint8x8_t y, uint8x8_t cb, uint8x8_t cr) {
        const uint8x8_t centre = vdup_n_u8(128);
        const int16x8_t luma = vreinterpretq_s16_u16(vmovl_u8(y));
        const int16x8_t b = vreinterpretq_s16_u16(vsubl_u8(cb, centre));
        const int16x8_t r = vreinterpretq_s16_u16(vsubl_u8(cr, centre));
        red = vqmovun_s16(vaddq_s16(vaddq_s16(luma, r), vqrdmulhq_n_s16(r, 13172)));
        blue = vqmovun_s16(vaddq_s16(vaddq_s16(luma, vshlq_n_s16(b, 1)), vqrdmulhq_n_s16(b, -7471)));
        // -0.34414 Cb + (1 - 0.71414) Cr; Cr is subtracted, as its factor does not fit into 16 bits.
        constexpr std::int16_t blue_factor = -22554, red_factor = 65536 - 46802;
        const int32x4_t low = vmlal_n_s16(vmull_n_s16(vget_low_s16(b), blue_factor), vget_low_s16(r), red_factor);
        const int32x4_t high = vmlal_high_n_s16(vmull_high_n_s16(b, blue_factor), r, red_factor);
        const int16x8_t mixed = vcombine_s16(vrshrn_n_s32(low, 16), vrshrn_n_s32(high, 16));
        green = vqmovun_s16(vaddq_s16(vsubq_s16(luma, r), mixed));
    }
};

inline void neon_ycbcr_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int pixels,
                              std::uint8_t* rgb) {
    for (int i = 0; i < pixels; i += 16) {
        const uint8x16_t luma = vld1q_u8(y + i), blue = vld1q_u8(cb + i), red = vld1q_u8(cr + i);
        const Colours a(vget_low_u8(luma), vget_low_u8(blue), vget_low_u8(red));
        const Colours b(vget_high_u8(luma), vget_high_u8(blue), vget_high_u8(red));
        const uint8x16x3_t all{{vcombine_u8(a.red, b.red), vcombine_u8(a.green, b.green), vcombine_u8(a.blue, b.blue)}};
        vst3q_u8(rgb + 3 * i, all);
    }
}

inline void neon_grey_to_rgb(const std::uint8_t* y, int pixels, std::uint8_t* rgb) {
    for (int i = 0; i < pixels; i += 16) {
        const uint8x16_t luma = vld1q_u8(y + i);
        const uint8x16x3_t all{{luma, luma, luma}};
        vst3q_u8(rgb + 3 * i, all);
    }
}

}  // namespace
}  // namespace stoker::jpeg
