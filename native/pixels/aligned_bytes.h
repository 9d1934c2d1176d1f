// A buffer that starts at a cache line, where loads and stores of vectors are fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker {

class AlignedBytes {
  public:
    // The contents are undefined afterwards.
    void grow(std::size_t bytes) {
        const std::size_t lines = (bytes + sizeof(Line) - 1) / sizeof(Line);
        if (lines_.size() < lines) lines_.resize(lines);
    }
    std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(lines_.data()); }

  private:
    struct alignas(64) Line {
        std::uint8_t bytes[64];
    };
    std::vector<Line> lines_;
};

}  // namespace stoker
