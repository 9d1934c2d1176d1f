// The lookup tables of Huffman codes, which give up to two symbols with their values at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "decode/jpeg/baseline/frame.h"

namespace stoker::jpeg {

constexpr int kLookupBits = 10;  // tables of 11 bits leave too little of a first-level cache of 32 KiB
constexpr int kSkipBits = 10;
constexpr int kWindowBits = 56;  // valid bits of a refilled window
constexpr std::size_t kLookupEntries = std::size_t{1} << kLookupBits;
constexpr std::size_t kSkipEntries = std::size_t{1} << kSkipBits;

// An entry holds the number of bits to drop, the steps along the coefficients of a block to the first and to the last
// value, and two values. A value may have bits beyond the lookup: they are shifted down by `shift`, and added.
struct Entry {
    static constexpr std::uint64_t make(unsigned bits, unsigned first_step, unsigned step, unsigned extra_bits,
                                        std::uint16_t first_value, std::uint16_t value) {
        return std::uint64_t{bits} | std::uint64_t{first_step} << 8 | std::uint64_t{step} << 16 |
               std::uint64_t{63 - extra_bits} << 24 | std::uint64_t{first_value} << 32 | std::uint64_t{value} << 48;
    }
    static constexpr unsigned bits(std::uint64_t entry) { return entry & 63; }
    static constexpr unsigned first_step(std::uint64_t entry) { return entry >> 8 & 255; }
    static constexpr unsigned step(std::uint64_t entry) { return entry >> 16 & 255; }
    static constexpr unsigned shift(std::uint64_t entry) { return static_cast<std::uint32_t>(entry) >> 24; }
    static constexpr std::uint32_t first_value(std::uint64_t entry) { return static_cast<std::uint32_t>(entry >> 32); }
    static constexpr std::int16_t value(std::uint64_t entry) { return static_cast<std::int16_t>(entry >> 48); }
};

// The position in a block is the index of its last coefficient, 63 or more if the block has ended. A step of kEndStep
// ends it, and a position with the bit kErrorStep is an error: a code that does not exist, or a value after the end.
constexpr unsigned kEndStep = 128;
constexpr unsigned kErrorStep = 64;
constexpr unsigned kLastCoefficient = 63;
// The first step of entries that the lookup does not decide; any position becomes larger than 63 by it.
constexpr unsigned kUndecidedStep = 192;

// The codes of one table by their length.
struct CodeBook {
    bool dc = false;
    std::array<std::uint32_t, 17> limit{};   // the first code that is longer, in 16 bits
    std::array<std::int32_t, 17> offset{};   // from a code to the index of its symbol
    std::array<std::uint8_t, 256> symbols{};

    // Returns false if libjpeg would refuse the codes.
    bool set(const HuffmanSpec& spec, bool is_dc);
    // Decodes one symbol and its value at the top of `window`, which has 31 valid bits.
    std::uint64_t decode(std::uint64_t window) const;
};

struct LookupTable {
    std::array<std::uint64_t, kLookupEntries> entries;
    const CodeBook* codes;

    // Sets the entries for DC differences or for AC coefficients, as the code book says.
    void set(const CodeBook& book, const HuffmanSpec& spec);
    // Returns the value of the first symbol at the top of `window`.
    std::int16_t value(std::uint64_t window) const;
};

// The lower halves of entries, without values: as many symbols at once as fit. The bits of the last value may lie
// beyond the lookup.
struct SkipTable {
    std::array<std::uint32_t, kSkipEntries> entries;
    const CodeBook* codes;

    void set(const CodeBook& book, const HuffmanSpec& spec);
    // Takes the entries of `table`: at most two symbols at once, which is quick.
    void set(const LookupTable& table);
};

// The tables of one image. A table is kept if the next image has the same one.
class HuffmanTables {
  public:
    // Returns false if libjpeg would refuse the codes of a table in use.
    bool set(const Frame& frame);
    const LookupTable& dc(int table) const { return dc_[static_cast<std::size_t>(table)].table; }
    const LookupTable& ac(int table) const { return ac_[static_cast<std::size_t>(table)].table; }
    const SkipTable& skipped_dc(int table) const { return dc_[static_cast<std::size_t>(table)].skipped; }
    const SkipTable& skipped_ac(int table) const { return ac_[static_cast<std::size_t>(table)].skipped; }

  private:
    struct Slot {
        HuffmanSpec spec;
        CodeBook book;
        LookupTable table;
        SkipTable skipped;
    };
    static bool set_slot(Slot& slot, const HuffmanSpec& spec, bool dc, bool skips_little);

    std::array<Slot, kMaxTables> dc_, ac_;
};

}  // namespace stoker::jpeg
