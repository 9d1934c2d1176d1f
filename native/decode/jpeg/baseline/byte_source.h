// The bytes of one interval of entropy-coded data, without stuffing, a piece at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "decode/jpeg/baseline/symbol_stream.h"

namespace stoker::jpeg {

constexpr int kChunkBlocks = 24;  // the most blocks that are decoded in one piece

class ByteSource {
  public:
    // Begins with the interval at `data`, which ends with the first marker, or with the payload.
    void begin(const std::uint8_t* data, const std::uint8_t* end, SymbolStream& stream);
    // Makes the bytes of the next kChunkBlocks blocks readable, as far as the interval has them.
    void refill(SymbolStream& stream);
    // Whether the stream has used more bits than the interval has.
    bool overrun(const SymbolStream& stream) const;

  private:
    static constexpr std::size_t kReserve = kChunkBlocks * kMaxBlockBytes + 16;
    static constexpr std::size_t kSlack = 64;  // bytes that copies of whole vectors may write past the end
    static constexpr std::size_t kCapacity = 32768;

    void fill(std::size_t begin);

    std::array<std::uint8_t, kCapacity + kReserve + kSlack> bytes_{};
    std::size_t filled_ = 0;
    const std::uint8_t* source_ = nullptr;
    const std::uint8_t* end_ = nullptr;  // of the payload
    bool ended_ = true;  // the source has no more bytes of the interval
};

}  // namespace stoker::jpeg
