// The state of one stream of Huffman codes, between two calls of the kernel that decodes it.
#pragma once

#include <cstdint>

#include "decode/jpeg/baseline/huffman.h"

namespace stoker::jpeg {

// The decoding of one block's DC difference, or of its AC coefficients.
struct Phase {
    const LookupTable* table = nullptr;
    std::int16_t* block = nullptr;  // kBlockSlots values
    std::uint64_t last = 0;         // the position at which the phase ended
};

// The same without storing the values.
struct SkipPhase {
    const SkipTable* table = nullptr;
    std::uint64_t window = 0;  // at the last symbol of the phase; a DC difference is one symbol
};

// Values after the end of a block go to the slot after it, which belongs to the next block.
constexpr int kBlockSlots = kCoefficients + 1;

struct SymbolStream {
    // The first byte that is not in the window; stuffing was removed before. At least kMaxBlockBytes for each block,
    // and 16 more, must be readable.
    const std::uint8_t* next = nullptr;
    std::uint64_t window = 0;  // the next bits, from the top on
    unsigned bits = 0;         // the number of valid bits in the window

    void start(const std::uint8_t* bytes) {
        next = bytes;
        window = 0;
        bits = 0;
    }
};

// The phases [phase, end) of a stream; `end` has a table, too.
struct SymbolRun {
    SymbolStream* stream;
    Phase* phase;
    const Phase* end;
};

// The most bytes that one block can take: 64 symbols, each of 16 bits with 15 bits of value.
constexpr int kMaxBlockBytes = 64 * 31 / 8;

}  // namespace stoker::jpeg
