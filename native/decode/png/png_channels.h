// Whole PNGs with the channels and bits that they are stored with, or with alpha.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/size_check.h"
#include "records/shards.h"

namespace stoker {

// (height, width, channels) levels of 8 or 16 bits, in this machine's byte order.
struct PngChannels {
    int height = 0, width = 0, channels = 0;
    int bits = 8;
    std::vector<std::uint8_t> pixels;
};

// Decodes a PNG, without its orientation: to RGB and alpha, or as decode_channels() has it in formats/codecs/channels.py.
// Grey of 16 bits keeps them; of other images the higher 8 are taken. `found` has no channels if the PNG has transparent
// colours (a tRNS chunk), which Pillow decodes.
CheckResult decode_png_channels(const Payload& payload, bool alpha, std::int64_t max_pixels, PngChannels& found);

}  // namespace stoker
