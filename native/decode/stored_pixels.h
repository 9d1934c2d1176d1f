// Images with the channels and bits that they are stored with, or with alpha.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "decode/checks/size_check.h"
#include "pixels/rectangle.h"
#include "records/shards.h"

namespace stoker {

// (height, width, channels) levels of 8 or 16 bits, in this machine's byte order.
struct StoredPixels {
    int height = 0, width = 0, channels = 0;
    int bits = 8;
    std::unique_ptr<std::uint8_t[]> levels;

    std::size_t pixel_bytes() const { return static_cast<std::size_t>(channels * bits / 8); }
    std::size_t row_bytes() const { return pixel_bytes() * static_cast<std::size_t>(width); }
    // Takes memory for the size and form above; the levels are undefined.
    void allocate() {
        levels = std::make_unique_for_overwrite<std::uint8_t[]>(row_bytes() * static_cast<std::size_t>(height));
    }
    std::uint8_t* at(int y, int x) {
        return levels.get() + row_bytes() * static_cast<std::size_t>(y) + pixel_bytes() * static_cast<std::size_t>(x);
    }
};

// The options of the decoding of an image.
struct StoredRequest {
    bool alpha = false;           // RGB and alpha; otherwise the form of decode_channels() in formats/codecs/decode.py
    std::int64_t max_pixels = 0;  // of the image
    Window window{};              // the part to decode; its part outside of the image is left out
};

// Decodes a part of an image, without its orientation. The levels outside of the window are undefined. `pixels` has no
// channels if Pillow must decode the image.
using DecodeStored = CheckResult (*)(const Payload& payload, const StoredRequest& request, StoredPixels& pixels);

// Returns the part of a window that lies within an image.
inline Window within(const Window& window, int height, int width) {
    const int left = std::clamp(window.left, 0, width), top = std::clamp(window.top, 0, height);
    return {left, top, std::clamp(window.right, left, width), std::clamp(window.bottom, top, height)};
}

}  // namespace stoker
