// A view of interleaved RGB pixels, uint8, that belong to somebody else.
#pragma once

#include <cstdint>

namespace stoker {

struct RgbView {
    const std::uint8_t* data = nullptr;
    std::int64_t height = 0;
    std::int64_t width = 0;
};

}  // namespace stoker
