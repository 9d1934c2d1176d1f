// The decoder of class masks: PNGs of one channel, inflated by libdeflate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "decode/png/unfilter.h"

struct libdeflate_decompressor;

namespace stoker {

class MaskPng {
  public:
    MaskPng();

    // Returns the first `rows` rows of a mask of this size, `width` bytes each, stride(width) bytes apart. They
    // are valid until the next call. Returns null for anything but an intact PNG of one channel of 8 bits that
    // is not interlaced: the caller decodes those with Pillow.
    const std::uint8_t* decode(const std::uint8_t* data, std::size_t size, int height, int width, int rows);
    static std::ptrdiff_t stride(int width) { return width + 1; }  // a row comes after the number of its filter

  private:
    bool find_stream(const std::uint8_t* data, std::size_t size, int height, int width);

    const png::UndoFilters undo_filters_ = png::undo_filters();
    const std::uint8_t* stream_ = nullptr;
    std::size_t stream_size_ = 0;
    std::vector<std::uint8_t> joined_chunks_;  // for a stream in several chunks
    std::vector<std::uint8_t> pixels_, scratch_;
    std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor_;
};

}  // namespace stoker
