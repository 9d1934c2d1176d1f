// The chunks of a PNG file (PNG 3, clauses 5 and 11), up to the end of its pixels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/header_bytes.h"
#include "decode/status.h"
#include "records/shards.h"

namespace stoker::png {

// Returns sample `i` of a row whose samples have fewer than 8 bits, or 8.
inline int small_sample(const std::uint8_t* row, int i, int bits) {
    const int at = i * bits;
    return row[at / 8] >> (8 - bits - at % 8) & ((1 << bits) - 1);
}

enum class ColorType : std::uint8_t { grey = 0, rgb = 2, palette = 3, grey_alpha = 4, rgba = 6 };

struct PngFile {
    int width = 0, height = 0;
    int bits = 0;  // of a sample
    ColorType color = ColorType::grey;
    bool interlaced = false;
    bool has_transparent_colors = false;  // a tRNS chunk
    std::array<std::uint8_t, 3 * 256> palette{};  // RGB
    const std::uint8_t* stream = nullptr;          // zlib's, of all IDAT chunks
    std::size_t stream_size = 0;
    std::vector<std::uint8_t> joined;  // holds the stream of several chunks

    // Reads the chunks. The payload must outlive the file. Like Pillow, it compares the checksums of all chunks but IDAT,
    // because the stream has another checksum.
    Outcome read(const Payload& payload);
    int samples() const;  // of a pixel
    std::size_t row_bytes(int pixels) const { return (static_cast<std::size_t>(pixels) * pixel_bits() + 7) / 8; }
    std::size_t pixel_bits() const { return static_cast<std::size_t>(bits * samples()); }

  private:
    Outcome read_header(HeaderBytes header);
    void add_stream(const std::uint8_t* body, std::size_t length);
};

}  // namespace stoker::png
