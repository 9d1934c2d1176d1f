// Rounding and clamping. Files of each instruction set include this one, so the namespace is unnamed.
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

// Rounds down to an int32. std::floor is a function call on the oldest x86-64.
inline std::int32_t round_down(double value) {
    const auto truncated = static_cast<std::int32_t>(value);
    return truncated - (value < truncated);
}

// Clamps to [low, high]; NaN becomes `low`.
template <class Number>
Number clamped(Number value, Number low, Number high) {
    const Number raised = value > low ? value : low;
    return raised < high ? raised : high;
}

}  // namespace
}  // namespace stoker
