// The conversion of a float to uint8. Files of each instruction set include this one, so the namespace is
// unnamed.
#pragma once

#include <cstdint>

namespace stoker {
namespace {

// Clips to 0..255 and rounds half up; NaN becomes 0.
inline std::uint8_t to_uint8(float value) {
    const float low = value > 0.0F ? value : 0.0F;
    const float clipped = low < 255.0F ? low : 255.0F;
    const auto whole = static_cast<std::int32_t>(clipped);
    return static_cast<std::uint8_t>(whole + (clipped - static_cast<float>(whole) >= 0.5F));
}

}  // namespace
}  // namespace stoker
