#include "decode/png/png_file.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>

namespace stoker::png {
namespace {

constexpr std::size_t kSignature = 8, kHeader = 13;
constexpr std::size_t kChunkOverhead = 12;  // bytes of a chunk's length, name and checksum

bool is(const std::uint8_t* name, const char* expected) { return std::memcmp(name, expected, 4) == 0; }

// The depths that each colour type may have (PNG 3, table 8).
bool is_known(std::uint8_t color, std::uint8_t bits) {
    const bool whole = bits == 8 || bits == 16, small = bits == 1 || bits == 2 || bits == 4;
    return color == 0 ? whole || small : color == 3 ? small || bits == 8 : (color == 2 || color == 4 || color == 6) && whole;
}

constexpr Outcome kCutOff{Status::truncated, "the file ends before the image does"};

}  // namespace

int PngFile::samples() const {
    switch (color) {
        case ColorType::rgb: return 3;
        case ColorType::grey_alpha: return 2;
        case ColorType::rgba: return 4;
        default: return 1;
    }
}

Outcome PngFile::read(const Payload& payload) {
    stream_size = 0;
    has_transparent_colors = false;
    palette.fill(0);  // for colours that a short palette lacks, as in Pillow
    const HeaderBytes bytes{payload.data, payload.size};
    for (std::size_t at = kSignature; at + 8 <= payload.size;) {
        const std::size_t length = bytes.big32(at);
        const std::uint8_t *name = payload.data + at + 4, *body = name + 4;
        const bool is_stream = is(name, "IDAT");
        if (!is_stream && stream_size > 0) return {};
        if (length > payload.size - at - 8 || (!is_stream && length + kChunkOverhead > payload.size - at)) return kCutOff;
        if (!is_stream && bytes.big32(at + 8 + length) != libdeflate_crc32(0, name, 4 + length))
            return {Status::not_decodable, "the checksum of a chunk does not match"};
        if (at == kSignature && !is(name, "IHDR"))
            return {Status::not_decodable, "the PNG does not begin with an IHDR chunk"};
        if (is(name, "IHDR")) {
            if (const Outcome header = read_header(bytes.part(at + 8, length)); !header.ok()) return header;
        } else if (is_stream) {
            add_stream(body, length);
        } else if (is(name, "PLTE")) {
            if (length > palette.size()) return {Status::not_decodable, "the palette has more than 256 colours"};
            std::memcpy(palette.data(), body, length - length % 3);
        } else if (is(name, "tRNS")) {
            has_transparent_colors = true;
        } else if (is(name, "IEND")) {
            break;
        }
        at += length + kChunkOverhead;
    }
    return stream_size > 0 ? Outcome{} : kCutOff;
}

Outcome PngFile::read_header(HeaderBytes header) {
    if (header.size != kHeader) return {Status::not_decodable, "the PNG has no complete IHDR chunk"};
    const std::uint8_t* body = header.data;
    const std::uint32_t columns = header.big32(0), rows = header.big32(4);
    if (columns == 0 || rows == 0 || columns > 0x7FFFFFFF || rows > 0x7FFFFFFF)
        return {Status::not_decodable, "the PNG's width or height is not between 1 and 2^31 - 1"};
    if (!is_known(body[9], body[8]) || body[10] != 0 || body[11] != 0)
        return {Status::not_decodable, "the PNG has an unknown kind of pixels"};
    width = static_cast<int>(columns);
    height = static_cast<int>(rows);
    bits = body[8];
    color = static_cast<ColorType>(body[9]);
    interlaced = body[12] != 0;
    return {};
}

void PngFile::add_stream(const std::uint8_t* body, std::size_t length) {
    if (stream_size == 0) {
        stream = body;
    } else {
        if (stream != joined.data()) joined.assign(stream, stream + stream_size);
        joined.insert(joined.end(), body, body + length);
        stream = joined.data();
    }
    stream_size += length;
}

}  // namespace stoker::png
