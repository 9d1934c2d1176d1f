// The check of an image's size, before any of its pixels are decoded.
#pragma once

#include <cstdint>
#include <string>

#include "decode/status.h"

namespace stoker {

// What a check found: ok, or what is wrong and why.
struct CheckResult {
    Status status = Status::ok;
    std::string reason;
};

// The longest side of a source image: the bytes of its rows fit into an int.
constexpr std::int64_t kMaxSourceSide = 1 << 24;

// "HxW pixels", for error messages.
std::string size_text(std::int64_t height, std::int64_t width);

// Checks that an image has the size that the index gives, and at most `max_pixels` pixels.
CheckResult check_size(std::int64_t height, std::int64_t width, std::int64_t indexed_height, std::int64_t indexed_width,
                       std::int64_t max_pixels);

}  // namespace stoker
