// The check of an image's size, before any of its pixels are decoded.
#pragma once

#include <cstdint>
#include <string>

#include "decode/status.h"

namespace stoker {

// The result of a check: a status, and the reason if it is not ok.
struct CheckResult {
    Status status = Status::ok;
    std::string reason;

    bool ok() const { return status == Status::ok; }
};

// The maximum height and width of a source image, so that the bytes of a row fit into an int.
constexpr std::int64_t kMaxSourceSide = 1 << 24;

// Returns "HxW pixels", for error messages.
std::string size_text(std::int64_t height, std::int64_t width);

// Checks that an image has the size that is in the index, and at most `max_pixels` pixels.
CheckResult check_size(std::int64_t height, std::int64_t width, std::int64_t indexed_height, std::int64_t indexed_width,
                       std::int64_t max_pixels);

}  // namespace stoker
