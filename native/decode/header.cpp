#include "decode/header.h"

#include <cstring>
#include <stdexcept>

namespace stoker {
namespace {

// Big- and little-endian reads, which return 0 outside the bytes.
struct Bytes {
    const std::uint8_t* data;
    std::size_t size;

    std::uint32_t byte(std::size_t at) const { return at < size ? data[at] : 0; }
    std::uint32_t big16(std::size_t at) const { return byte(at) << 8 | byte(at + 1); }
    std::uint32_t big32(std::size_t at) const { return big16(at) << 16 | big16(at + 2); }
    std::uint32_t little16(std::size_t at) const { return byte(at) | byte(at + 1) << 8; }
    std::uint32_t little32(std::size_t at) const { return little16(at) | little16(at + 2) << 16; }
    bool starts_with(const char* magic, std::size_t length) const {
        return size >= length && std::memcmp(data, magic, length) == 0;
    }
    Bytes part(std::size_t at, std::size_t length) const {
        if (at > size) return {data, 0};
        return {data + at, length < size - at ? length : size - at};
    }
};

// Returns the orientation in the first directory of a TIFF structure, or 0 if it has none.
int tiff_orientation(Bytes tiff) {
    const bool little = tiff.starts_with("II*\0", 4);
    if (!little && !tiff.starts_with("MM\0*", 4)) return 0;
    const auto read16 = [&](std::size_t at) { return little ? tiff.little16(at) : tiff.big16(at); };
    const auto read32 = [&](std::size_t at) { return little ? tiff.little32(at) : tiff.big32(at); };
    const std::size_t directory = read32(4);
    const std::size_t entries = read16(directory);
    for (std::size_t i = 0; i < entries; ++i) {
        const std::size_t entry = directory + 2 + 12 * i;
        if (entry + 12 > tiff.size) return 0;
        if (read16(entry) != 0x0112) continue;
        constexpr std::uint32_t type_short = 3;
        const std::uint32_t value = read16(entry + 2) == type_short ? read16(entry + 8) : read32(entry + 8);
        return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
    }
    return 0;
}

bool is_start_of_frame(std::uint32_t marker) {
    // C4, C8 and CC are not frames: they define tables and an extension.
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool stands_alone(std::uint32_t marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

Header probe_jpeg(Bytes jpeg) {
    Header header;
    header.codec = Codec::jpeg;
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
        const Bytes body = jpeg.part(at + 2, length - 2);
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

int png_channels(std::uint32_t color_type) {
    switch (color_type) {
        case 0: return 1;
        case 2: case 3: return 3;
        case 4: return 2;
        case 6: return 4;
        default: throw std::invalid_argument("the PNG has an unknown colour type");
    }
}

Header probe_png(Bytes png) {
    if (png.size < 33 || std::memcmp(png.data + 12, "IHDR", 4) != 0)
        throw std::invalid_argument("the PNG has no complete IHDR chunk");
    const std::uint32_t width = png.big32(16), height = png.big32(20);
    if (width == 0 || height == 0 || width > 0x7FFFFFFF || height > 0x7FFFFFFF)
        throw std::invalid_argument("the PNG's width or height is not between 1 and 2^31 - 1");
    Header header;
    header.codec = Codec::png;
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

}  // namespace

Header probe(const std::uint8_t* data, std::size_t size) {
    const Bytes bytes{data, size};
    if (bytes.starts_with("\xFF\xD8\xFF", 3)) return probe_jpeg(bytes);
    if (bytes.starts_with("\x89PNG\r\n\x1A\n", 8)) return probe_png(bytes);
    return {};
}

}  // namespace stoker
