// The resize and re-encoding of images for conversions, with the kernels of the loader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pixels/rgb_view.h"
#include "records/shards.h"
#include "transcode/jpeg_encoder.h"

namespace stoker {

// The size of the result:
// none     the size of the image
// shorter  the shorter side becomes `height`; the other side is rounded down, as in torchvision's Resize;
//          smaller images keep their size
// longer   the longer side becomes `height`, by the same rules
// squash   height x width, with another aspect ratio
// crop     scaled to cover height x width, then cut to its centre
// fill     scaled to fit into height x width, then centred on black
// squash, crop and fill also enlarge. Sizes and offsets of crop and fill are rounded as in NVIDIA DIGITS
// (resize_image in digits/utils/image.py), which fills with noise instead of black.
enum class Mode { none, shorter, longer, squash, crop, fill };

struct TranscodeOptions {
    Mode mode = Mode::none;
    int height = 0;
    int width = 0;
    bool jpeg = true;  // otherwise raw RGB
    JpegOptions encoding;
    std::int64_t max_pixels = 0;
};

struct Transcoded {
    std::vector<std::uint8_t> payload;
    int height = 0;
    int width = 0;
};

// Returns the options of these words and numbers. Throws std::invalid_argument for a wrong one.
TranscodeOptions parse_options(const std::string& mode, int height, int width, const std::string& encoding,
                               int quality, const std::string& subsampling, std::int64_t max_pixels,
                               bool restarts);

// Transcodes a payload, or pixels. Throws std::invalid_argument with the reason.
Transcoded transcode_payload(const Payload& payload, const TranscodeOptions& options);
Transcoded transcode_pixels(const RgbView& pixels, const TranscodeOptions& options);
// Resizes the part `box` of the pixels: top, left, bottom, right.
std::vector<std::uint8_t> resize(const RgbView& pixels, const double box[4], int height, int width);

}  // namespace stoker
