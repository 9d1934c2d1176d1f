#include "decode/jpeg/baseline/huffman.h"

#include <algorithm>

namespace stoker::jpeg {
namespace {

constexpr int kMaxDcBits = 11;  // of a difference of 8-bit samples (ITU T.81, table F.1)
constexpr unsigned kZeroRun = 16;
// Two entries and a lookup must fit into the bits of a refilled window.
constexpr unsigned kMaxEntryBits = (kWindowBits - kLookupBits) / 2;
constexpr unsigned kMaxSkipBits = (kWindowBits - kSkipBits) / 2;

constexpr std::uint64_t kUndecided = Entry::make(0, kUndecidedStep, kUndecidedStep, 0, 0, 0);

// The value that `bits` bits mean (ITU T.81, figure F.12).
constexpr int extend(unsigned value, unsigned bits) {
    return value < (1U << bits >> 1) ? static_cast<int>(value) - static_cast<int>((1U << bits) - 1)
                                     : static_cast<int>(value);
}

struct Symbol {
    unsigned bits;   // of the value
    unsigned first_step, step;
};

constexpr Symbol ac_symbol(unsigned symbol) {
    const unsigned run = symbol >> 4, bits = symbol & 15;
    if (bits != 0) return {bits, run + 1, run + 1};
    if (run == 15) return {0, kZeroRun, kZeroRun};
    return {0, 1, kEndStep};
}

constexpr Symbol symbol_of(bool dc, unsigned symbol) {
    if (!dc) return ac_symbol(symbol);
    return {symbol, 0, symbol <= kMaxDcBits ? kEndStep : kErrorStep};
}

// Calls `fill(begin, count, length, symbol)` for the lookups of `bits` bits that begin with each code.
template <class Fill>
void for_each_code(const HuffmanSpec& spec, unsigned bits, Fill fill) {
    std::uint32_t code = 0;
    std::size_t index = 0;
    for (unsigned length = 1; length <= bits; ++length, code <<= 1)
        for (int i = 0; i < spec.counts[length]; ++i, ++code, ++index) {
            const unsigned free_bits = bits - length;
            fill(code << free_bits, 1U << free_bits, length, spec.symbols[index]);
        }
}

// Fills the lookups of one code, each with one symbol.
void fill_code(std::uint64_t* entries, std::uint32_t count, unsigned length, Symbol symbol) {
    const unsigned free_bits = kLookupBits - length;
    if (symbol.bits > free_bits) {
        // The sign, at least, must be within the lookup.
        const unsigned beyond = symbol.bits - free_bits;
        if (free_bits == 0 || length + symbol.bits > kMaxEntryBits || symbol.step == kErrorStep) return;
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto value = static_cast<std::uint16_t>(extend(i << beyond, symbol.bits));
            entries[i] = Entry::make(length + symbol.bits, symbol.first_step, symbol.step, beyond, value, value);
        }
        return;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto number = static_cast<std::uint16_t>(extend(i >> (free_bits - symbol.bits), symbol.bits));
        const std::uint16_t last = symbol.step == kEndStep ? 0 : number;
        entries[i] = Entry::make(length + symbol.bits, symbol.first_step, symbol.step, 0, number, last);
    }
}

// Whether another symbol may follow within a lookup.
bool may_continue(std::uint64_t entry) {
    return Entry::step(entry) < kErrorStep && Entry::bits(entry) < static_cast<unsigned>(kLookupBits) &&
           Entry::shift(entry) == 63;
}

// Joins an entry and the symbol after it.
std::uint64_t joined(const std::uint64_t* single, std::size_t lookup) {
    const std::uint64_t first = single[lookup];
    if (!may_continue(first)) return first;
    const std::uint64_t second = single[lookup << Entry::bits(first) & (kLookupEntries - 1)];
    const unsigned bits = Entry::bits(first) + Entry::bits(second);
    const std::uint64_t both = Entry::make(bits, Entry::first_step(first), Entry::step(first) + Entry::step(second), 0,
                                           static_cast<std::uint16_t>(Entry::first_value(first)),
                                           static_cast<std::uint16_t>(Entry::value(second)));
    const bool fit = (Entry::step(second) != kUndecidedStep) & (bits <= static_cast<unsigned>(kLookupBits));
    return fit ? both : first;
}

// One symbol of a SkipTable.
struct Skipped {
    std::uint8_t code_bits = 0, bits = 0, first_step = kUndecidedStep, step = kUndecidedStep;
};

// Joins as many symbols as fit.
std::uint32_t joined(const std::array<Skipped, kSkipEntries>& single, std::size_t lookup) {
    Skipped all = single[lookup];
    while (all.step + 1U < kLastCoefficient && all.bits < kSkipBits) {
        const Skipped& next = single[lookup << all.bits & (kSkipEntries - 1)];
        if (next.step == kUndecidedStep || all.bits + next.code_bits > kSkipBits) break;
        const unsigned step = all.step + next.step, bits = all.bits + next.bits;
        if (bits > kMaxSkipBits || (step >= kErrorStep && step < kEndStep)) break;
        all = {0, static_cast<std::uint8_t>(bits), all.step, static_cast<std::uint8_t>(step)};
    }
    return static_cast<std::uint32_t>(Entry::make(all.bits, all.first_step, all.step, 0, 0, 0));
}

}  // namespace

bool CodeBook::set(const HuffmanSpec& spec, bool is_dc) {
    dc = is_dc;
    symbols = spec.symbols;
    std::uint32_t code = 0;
    int index = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
        offset[length] = index - static_cast<int>(code);
        code += spec.counts[length];
        index += spec.counts[length];
        // No code may be all ones.
        if (spec.counts[length] != 0 && code >= 1U << length) return false;
        limit[length] = code << (16 - length);
    }
    return !is_dc || std::all_of(symbols.begin(), symbols.begin() + index, [](unsigned symbol) { return symbol < 16; });
}

std::uint64_t CodeBook::decode(std::uint64_t window) const {
    const auto top = static_cast<std::uint32_t>(window >> 48);
    unsigned length = 1;
    for (unsigned i = 1; i <= 16; ++i) length += top >= limit[i];
    if (length > 16) return Entry::make(1, dc ? 0 : kErrorStep, kErrorStep, 0, 0, 0);
    const int index = static_cast<int>(top >> (16 - length)) + offset[length];
    const Symbol symbol = symbol_of(dc, symbols[static_cast<std::size_t>(index)]);
    const auto bits = static_cast<unsigned>(window << length >> 1 >> (63 - symbol.bits));
    const auto value = static_cast<std::uint16_t>(symbol.bits == 0 ? 0 : extend(bits, symbol.bits));
    return Entry::make(length + symbol.bits, symbol.first_step, symbol.step, 0, value, 0);
}

void LookupTable::set(const CodeBook& book, const HuffmanSpec& spec) {
    codes = &book;
    std::array<std::uint64_t, kLookupEntries> single;
    single.fill(kUndecided);
    for_each_code(spec, kLookupBits, [&](std::uint32_t begin, std::uint32_t count, unsigned length, unsigned symbol) {
        fill_code(single.data() + begin, count, length, symbol_of(book.dc, symbol));
    });
    if (book.dc) {
        entries = single;
        return;
    }
    for (std::size_t lookup = 0; lookup < kLookupEntries; ++lookup) entries[lookup] = joined(single.data(), lookup);
}

std::int16_t LookupTable::value(std::uint64_t window) const {
    std::uint64_t entry = entries[window >> (64 - kLookupBits)];
    if (Entry::first_step(entry) == kUndecidedStep) entry = codes->decode(window);
    const auto beyond = static_cast<std::uint32_t>(window << kLookupBits >> 1 >> Entry::shift(entry));
    return static_cast<std::int16_t>(Entry::first_value(entry) + beyond);
}

void SkipTable::set(const LookupTable& table) {
    codes = table.codes;
    for (std::size_t lookup = 0; lookup < kSkipEntries; ++lookup)
        entries[lookup] = static_cast<std::uint32_t>(table.entries[lookup]);
}

void SkipTable::set(const CodeBook& book, const HuffmanSpec& spec) {
    codes = &book;
    std::array<Skipped, kSkipEntries> single{};
    for_each_code(spec, kSkipBits, [&](std::uint32_t begin, std::uint32_t count, unsigned length, unsigned number) {
        const Symbol symbol = symbol_of(book.dc, number);
        if (length + symbol.bits > kMaxSkipBits || symbol.step == kErrorStep) return;
        std::fill_n(single.data() + begin, count,
                    Skipped{static_cast<std::uint8_t>(length), static_cast<std::uint8_t>(length + symbol.bits),
                            static_cast<std::uint8_t>(symbol.first_step), static_cast<std::uint8_t>(symbol.step)});
    });
    for (std::size_t lookup = 0; lookup < kSkipEntries; ++lookup) entries[lookup] = joined(single, lookup);
}

bool HuffmanTables::set_slot(Slot& slot, const HuffmanSpec& spec, bool dc, bool skips_little) {
    if (slot.spec == spec) return true;
    slot.spec = HuffmanSpec{};
    if (!slot.book.set(spec, dc)) return false;
    slot.table.set(slot.book, spec);
    if (skips_little)
        slot.skipped.set(slot.table);
    else
        slot.skipped.set(slot.book, spec);
    slot.spec = spec;
    return true;
}

bool HuffmanTables::set(const Frame& frame) {
    const bool skips_little = frame.restart_interval != 0;
    for (int i = 0; i < frame.components; ++i) {
        const auto dc = static_cast<std::size_t>(frame.component[i].dc);
        const auto ac = static_cast<std::size_t>(frame.component[i].ac);
        if (!set_slot(dc_[dc], frame.dc[dc], true, skips_little)) return false;
        if (!set_slot(ac_[ac], frame.ac[ac], false, skips_little)) return false;
    }
    return true;
}

}  // namespace stoker::jpeg
