// Resize and re-encode for the conversion, with the kernels of the loader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pixels/rgb_view.h"
#include "records/shards.h"
#include "transcode/jpeg_encoder.h"

namespace stoker {

// none     the size of the image
// shorter  the shorter side becomes `height`, the other one is rounded down, as torchvision's Resize does;
//          smaller images keep their size
// longer   the same with the longer side
// squash   height x width, whatever becomes of the aspect
// crop     scaled to cover height x width, then the centre
// fill     scaled to fit into height x width, then centred on black
// The last three scale up too. Sizes and offsets of crop and fill are rounded as in NVIDIA DIGITS
// (resize_image in digits/utils/image.py), which fills with noise instead of black.
enum class Mode { none, shorter, longer, squash, crop, fill };

struct TranscodeOptions {
    Mode mode = Mode::none;
    int height = 0;
    int width = 0;
    bool jpeg = true;  // else raw RGB
    int quality = 90;
    Subsampling subsampling = Subsampling::s420;
    std::int64_t max_pixels = 0;
};

struct Transcoded {
    std::vector<std::uint8_t> payload;
    int height = 0;
    int width = 0;
};

// Throws std::invalid_argument for unknown words and impossible numbers.
TranscodeOptions parse_options(const std::string& mode, int height, int width, const std::string& encoding,
                               int quality, const std::string& subsampling, std::int64_t max_pixels);

// All throw std::invalid_argument with the reason.
Transcoded transcode_payload(const Payload& payload, const TranscodeOptions& options);
Transcoded transcode_pixels(const RgbView& pixels, const TranscodeOptions& options);
// `box` is top, left, bottom, right in the source.
std::vector<std::uint8_t> resize(const RgbView& pixels, const double box[4], int height, int width);

}  // namespace stoker
