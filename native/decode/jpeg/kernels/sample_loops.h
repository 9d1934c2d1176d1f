// Loops over rows of samples, in plain C++: upsampling and colours.
#pragma once

#include <algorithm>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {
namespace {

inline void plain_h2v1(const std::uint8_t* row, int samples, std::uint8_t* out) {
    for (int i = 0; i < samples; ++i) {
        out[2 * i] = static_cast<std::uint8_t>((3 * row[i] + row[i - 1] + 1) >> 2);
        out[2 * i + 1] = static_cast<std::uint8_t>((3 * row[i] + row[i + 1] + 2) >> 2);
    }
}

inline void plain_h2v2(const std::uint8_t* near, const std::uint8_t* far, int samples, std::uint8_t* out) {
    const auto column = [&](int i) { return 3 * near[i] + far[i]; };
    for (int i = 0; i < samples; ++i) {
        out[2 * i] = static_cast<std::uint8_t>((3 * column(i) + column(i - 1) + 8) >> 4);
        out[2 * i + 1] = static_cast<std::uint8_t>((3 * column(i) + column(i + 1) + 7) >> 4);
    }
}

inline void plain_h1v2(const std::uint8_t* near, const std::uint8_t* far, int samples, int bias, std::uint8_t* out) {
    for (int i = 0; i < samples; ++i) out[i] = static_cast<std::uint8_t>((3 * near[i] + far[i] + bias) >> 2);
}

inline void plain_repeat_h2(const std::uint8_t* row, int samples, std::uint8_t* out) {
    for (int i = 0; i < samples; ++i) out[2 * i] = out[2 * i + 1] = row[i];
}

// JFIF's matrix in 16 bits of fraction, rounded as in libjpeg's tables (jdcolor.c).
inline void plain_ycbcr_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int pixels,
                               std::uint8_t* rgb) {
    constexpr int half = 1 << 15;
    const auto byte = [](int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); };
    for (int i = 0; i < pixels; ++i) {
        const int blue = cb[i] - 128, red = cr[i] - 128;
        rgb[3 * i] = byte(y[i] + ((91881 * red + half) >> 16));
        rgb[3 * i + 1] = byte(y[i] + ((-22554 * blue - 46802 * red + half) >> 16));
        rgb[3 * i + 2] = byte(y[i] + ((116130 * blue + half) >> 16));
    }
}

inline void plain_grey_to_rgb(const std::uint8_t* y, int pixels, std::uint8_t* rgb) {
    for (int i = 0; i < pixels; ++i) rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = y[i];
}

}  // namespace
}  // namespace stoker::jpeg
