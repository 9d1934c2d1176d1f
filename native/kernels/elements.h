// The element types of a batch, and the conversion of a float to each. Files of each instruction set include
// this one, so the namespace is unnamed.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/rounding.h"

namespace stoker {
namespace {

struct Half {
    std::uint16_t bits;
};
struct BFloat16 {
    std::uint16_t bits;
};

inline std::uint32_t float_bits(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

// Rounds to nearest even, and overflows to infinity, as IEEE 754 requires.
inline Half to_half(float value) {
    const std::uint32_t bits = float_bits(value);
    const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    float absolute;
    std::memcpy(&absolute, &magnitude, 4);
    const std::uint32_t subnormal = float_bits(absolute + 0.5F) - 0x3F000000;  // the addition rounds
    const std::uint32_t normal = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    const std::uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    const std::uint32_t large = magnitude > 0x7F800000 ? 0x7E00 : 0x7C00;
    return {static_cast<std::uint16_t>(sign | (magnitude >= 0x477FF000 ? large : finite))};
}

inline void put(float value, float& out) { out = value; }
inline void put(float value, Half& out) { out = to_half(value); }
inline void put(float value, BFloat16& out) {
    const std::uint32_t bits = float_bits(value);
    out.bits = static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline void put(float value, std::uint8_t& out) { out = to_uint8(value); }

}  // namespace
}  // namespace stoker
