// The decompression of DEFLATE (RFC 1951), for masks, which compress well: it copies long matches in large
// pieces, and stops when it has the bytes that are needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stoker {

// The number of bytes that may be written past the end of the output.
constexpr std::size_t kInflateSlack = 16;

// A canonical Huffman code of up to 15 bits.
class HuffmanCode {
  public:
    // Sets the lengths of the code words. Returns false if no code has these lengths.
    bool set(const std::uint8_t* lengths, int count);
    // Returns the symbol at the lowest of `bits`, and the length of its code word; -1 if there is none.
    int decode(std::uint64_t bits, int& length) const;

  private:
    static constexpr int kMaxCodeLength = 15;
    static constexpr int kTableBits = 10;
    struct Entry {
        std::uint16_t symbol;
        std::uint8_t length;  // 0 if the code word is longer than kTableBits, or there is none
    };
    int decode_long(std::uint64_t bits, int& length) const;

    std::array<Entry, 1 << kTableBits> table_{};
    std::array<std::uint16_t, kMaxCodeLength + 1> counts_{};
    std::array<std::uint16_t, 288> symbols_{};  // in the order of their code words
};

// A decompressor, which is used for one stream after the other.
class Inflate {
  public:
    // Decompresses the first `size` bytes of a stream in zlib's format (RFC 1950), without a look at its
    // checksum. `out` has room for kInflateSlack more bytes. Returns false if the stream is damaged or too
    // short.
    bool run(const std::uint8_t* data, std::size_t length, std::uint8_t* out, std::size_t size);

  private:
    void refill();
    bool read_bits(int count, std::uint32_t& value);
    bool copy_stored();
    bool use_fixed_codes();
    bool read_codes();
    bool decode_symbols();
    bool copy(std::size_t distance, std::size_t length);

    const std::uint8_t* at_ = nullptr;
    const std::uint8_t* end_ = nullptr;
    std::uint64_t bits_ = 0;  // the next bits are the lowest
    int count_ = 0;           // number of valid bits
    std::uint8_t* out_ = nullptr;
    std::size_t written_ = 0, size_ = 0;
    HuffmanCode literals_, distances_;
};

}  // namespace stoker
