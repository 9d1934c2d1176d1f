// JPEG: its number, signature, header and decoder.
#include <stdexcept>

#include <cstdio>  // jpeglib.h needs it before itself

#include <jpeglib.h>

#include "decode/codecs.h"
#include "decode/header_bytes.h"
#include "decode/jpeg/jpeg_decoder.h"

namespace stoker {
namespace {

bool is_start_of_frame(std::uint32_t marker) {
    // C4, C8 and CC are not frames: they define tables and an extension.
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool stands_alone(std::uint32_t marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

Header read_header(HeaderBytes jpeg) {
    Header header;
    int orientation = 0;
    std::size_t at = 2;
    for (;;) {
        while (at < jpeg.size && jpeg.data[at] != 0xFF) ++at;  // libjpeg skips stray bytes, too
        while (at < jpeg.size && jpeg.data[at] == 0xFF) ++at;
        if (at >= jpeg.size) throw std::invalid_argument("the JPEG ends before its frame header");
        const std::uint32_t marker = jpeg.data[at++];
        if (marker == 0 || stands_alone(marker)) continue;
        if (marker == 0xD9 || marker == 0xDA)
            throw std::invalid_argument("the JPEG has no frame header before its data");
        const std::size_t length = jpeg.big16(at);
        if (length < 2 || length > jpeg.size - at)
            throw std::invalid_argument("the JPEG ends within its header");
        const HeaderBytes body = jpeg.part(at + 2, length - 2);
        if (marker == 0xE1 && orientation == 0 && body.starts_with("Exif\0\0", 6))
            orientation = tiff_orientation(body.part(6, body.size));
        if (is_start_of_frame(marker)) {
            header.height = static_cast<std::int32_t>(body.big16(1));
            header.width = static_cast<std::int32_t>(body.big16(3));
            header.channels = static_cast<int>(body.byte(5));
            break;
        }
        at += length;
    }
    if (header.width == 0 || header.height == 0 || header.channels == 0)
        throw std::invalid_argument("the JPEG's frame header gives no width, height or components");
    header.orientation = orientation == 0 ? 1 : orientation;
    return header;
}

#define STOKER_TEXT_OF(value) #value
#define STOKER_TEXT(macro) STOKER_TEXT_OF(macro)

const RegisteredCodec registered({.codec = Codec::jpeg,
                                  .name = "JPEG",
                                  .library = "libjpeg-turbo " STOKER_TEXT(LIBJPEG_TURBO_VERSION),
                                  .signature = "\xFF\xD8\xFF",
                                  .read_header = read_header,
                                  .decoding = decoding<JpegDecoder>()});

}  // namespace
}  // namespace stoker
