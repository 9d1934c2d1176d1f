// Decompression of DEFLATE (RFC 1951), for what compresses as well as masks do: long matches are copied in
// large pieces, and nothing is decoded that is not asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stoker {

// Bytes that may be written past the end of what is asked for.
constexpr std::size_t kInflateSlack = 16;

// Canonical Huffman codes of up to 15 bits.
class HuffmanCode {
  public:
    // False for lengths that are those of no code.
    bool set(const std::uint8_t* lengths, int count);
    // The symbol that the lowest of `bits` begin with, and how many of them it takes; -1 for none.
    int decode(std::uint64_t bits, int& length) const;

  private:
    static constexpr int kMaxCodeLength = 15;
    static constexpr int kTableBits = 10;
    struct Entry {
        std::uint16_t symbol;
        std::uint8_t length;  // 0 where the code is longer than kQuick, or none
    };
    int decode_long(std::uint64_t bits, int& length) const;

    std::array<Entry, 1 << kTableBits> table_{};
    std::array<std::uint16_t, kMaxCodeLength + 1> counts_{};
    std::array<std::uint16_t, 288> symbols_{};  // in the order of their codes
};

class Inflate {
  public:
    // The first `size` bytes of a stream in zlib's format (RFC 1950), whose checksum at the end is not looked at;
    // `out` has kInflateSlack more. False where the stream is damaged or ends before.
    bool run(const std::uint8_t* data, std::size_t length, std::uint8_t* out, std::size_t size);

  private:
    void refill();
    bool take(int count, std::uint32_t& value);
    bool stored();
    bool codes();
    bool read_codes();
    bool symbols();
    bool copy(std::size_t distance, std::size_t length);

    const std::uint8_t* at_ = nullptr;
    const std::uint8_t* end_ = nullptr;
    std::uint64_t bits_ = 0;  // the lowest come next
    int count_ = 0;           // of them
    std::uint8_t* out_ = nullptr;
    std::size_t written_ = 0, size_ = 0;
    HuffmanCode literals_, distances_;
};

}  // namespace stoker
