// PNG: its number, signature, header and decoder.
#include <stdexcept>

#include <libdeflate.h>

#include "decode/codecs.h"
#include "decode/header_bytes.h"
#include "decode/png/png_decoder.h"

namespace stoker {
namespace {

int png_channels(std::uint32_t color_type) {
    switch (color_type) {
        case 0: return 1;
        case 2: case 3: return 3;
        case 4: return 2;
        case 6: return 4;
        default: throw std::invalid_argument("the PNG has an unknown colour type");
    }
}

Header read_header(HeaderBytes png) {
    if (png.size < 33 || std::memcmp(png.data + 12, "IHDR", 4) != 0)
        throw std::invalid_argument("the PNG has no complete IHDR chunk");
    const std::uint32_t width = png.big32(16), height = png.big32(20);
    if (width == 0 || height == 0 || width > 0x7FFFFFFF || height > 0x7FFFFFFF)
        throw std::invalid_argument("the PNG's width or height is not between 1 and 2^31 - 1");
    Header header;
    header.width = static_cast<std::int32_t>(width);
    header.height = static_cast<std::int32_t>(height);
    header.channels = png_channels(png.byte(25));
    // eXIf may stand before or after the pixels (PNG 3, 11.3.2.4).
    for (std::size_t at = 8; at + 12 <= png.size;) {
        const std::size_t length = png.big32(at);
        if (std::memcmp(png.data + at + 4, "eXIf", 4) == 0) {
            const int orientation = tiff_orientation(png.part(at + 8, length));
            header.orientation = orientation == 0 ? 1 : orientation;
            break;
        }
        if (length > png.size - at - 12) break;
        at += length + 12;
    }
    return header;
}

const RegisteredCodec registered({.codec = Codec{2},
                                  .name = "PNG",
                                  .library = "libdeflate " LIBDEFLATE_VERSION_STRING,
                                  .signature = "\x89PNG\r\n\x1A\n",
                                  .read_header = read_header,
                                  .decoding = decoding<PngDecoder>(),
                                  .decode_stored = decode_stored_png});

}  // namespace
}  // namespace stoker
