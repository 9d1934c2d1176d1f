// The bytes of an image's header, for the files that read one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stoker {

// Reads big- and little-endian numbers; a byte outside the header is 0.
struct HeaderBytes {
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
    HeaderBytes part(std::size_t at, std::size_t length) const {
        if (at > size) return {data, 0};
        return {data + at, length < size - at ? length : size - at};
    }
};

// Returns the EXIF orientation in the first directory of a TIFF structure, or 0 if it has none.
int tiff_orientation(HeaderBytes tiff);

}  // namespace stoker
