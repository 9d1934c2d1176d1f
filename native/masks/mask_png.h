// Masks of classes, decoded as far as they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "masks/inflate.h"

namespace stoker {

class MaskPng {
  public:
    // The first `rows` rows of a mask of a known size, `width` bytes each and `stride(width)` apart, valid until
    // the next call. Null for all that is not an intact PNG of one channel of 8 bits, not interlaced: there are
    // libraries for those.
    const std::uint8_t* decode(const std::uint8_t* data, std::size_t size, int height, int width, int rows);
    static std::ptrdiff_t stride(int width) { return width + 1; }  // each row has its filter before it

  private:
    bool find_stream(const std::uint8_t* data, std::size_t size, int height, int width);
    bool undo_filters(int width, int rows);

    const std::uint8_t* stream_ = nullptr;
    std::size_t stream_size_ = 0;
    std::vector<std::uint8_t> joined_chunks_;  // where the stream comes in several chunks
    std::vector<std::uint8_t> pixels_;
    Inflate inflate_;
};

}  // namespace stoker
