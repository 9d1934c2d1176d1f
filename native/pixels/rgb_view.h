// A view of interleaved RGB pixels, uint8, which does not own them.
#pragma once

#include <cstdint>

namespace stoker {

struct RgbView {
    const std::uint8_t* data = nullptr;
    std::int64_t height = 0;
    std::int64_t width = 0;
};

}  // namespace stoker
