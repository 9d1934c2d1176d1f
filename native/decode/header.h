// The header of an image: codec, size and orientation, read without decoding.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// The numbers of stoker.formats.codecs.codec.Codec. Shared code uses those that are named
// here; each other codec writes its number, `Codec{n}`, in its own file.
enum class Codec : std::uint8_t { raw = 0, jpeg = 1, other = 255 };

struct Header {
    Codec codec = Codec::other;
    std::int32_t width = 0;  // of the stored image, before the orientation is applied
    std::int32_t height = 0;
    int orientation = 1;  // EXIF 2.32, tag 0x0112
    int channels = 0;
};

// Reads the header of an image whose codec is in the table (decode/codecs.h); the codec of anything else is
// `other`. Throws std::invalid_argument for a damaged header.
Header probe(const std::uint8_t* data, std::size_t size);

}  // namespace stoker
