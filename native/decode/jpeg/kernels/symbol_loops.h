// The loop that decodes symbols. Each file of kernels includes it and compiles it for its instruction set.
#pragma once

#include <array>
#include <cstring>

#include "decode/jpeg/baseline/symbol_stream.h"

namespace stoker::jpeg {
namespace {

// The position in natural order of each position of a block. Positions after its end lead to the slot after it.
constexpr std::array<std::uint8_t, 256> kOrder = [] {
    std::array<std::uint8_t, 256> order{};
    order.fill(kCoefficients);
    for (int i = 0; i < kCoefficients; ++i) order[i] = kZigzag[i];
    return order;
}();

inline std::uint64_t load_big_endian(const std::uint8_t* bytes) {
    std::uint64_t value;
    std::memcpy(&value, bytes, sizeof value);
    return __builtin_bswap64(value);
}

// The next bits of a stream, in registers.
struct BitWindow {
    std::uint64_t window;
    unsigned bits;
    const std::uint8_t* next;

    // Keeps at least kWindowBits valid bits in the window. The bits below them are those that follow, or 0.
    [[gnu::always_inline]] void refill() {
        window |= load_big_endian(next) >> bits;
        next += (63 - bits) >> 3;
        bits |= kWindowBits;
    }
    [[gnu::always_inline]] void drop(unsigned count) {
        window <<= count;
        bits -= count;
    }
    [[gnu::always_inline]] std::uint64_t lookup(const Phase& phase) const {
        return phase.table->entries[window >> (64 - kLookupBits)];
    }
    [[gnu::always_inline]] std::uint64_t lookup(const SkipPhase& phase) const {
        return phase.table->entries[window >> (64 - kSkipBits)];
    }
};

// Sets what the next step begins with: the next phase and its entry at position 0 if the phase has ended, otherwise the
// same phase and entry. Compilers make a branch of this, which would be mispredicted for every other block.
template <class AnyPhase>
[[gnu::always_inline]] inline void move_on(unsigned& position, std::uint64_t& entry, AnyPhase*& phase,
                                           std::uint64_t next_entry, unsigned zero) {
#if defined(__x86_64__)
    AnyPhase* next_phase = phase + 1;
    __asm__("cmpl %[limit], %[position]\n\t"
            "cmovae %[zero], %[position]\n\t"
            "cmovae %[next_entry], %[entry]\n\t"
            "cmovae %[next_phase], %[phase]"
            : [position] "+&r"(position), [entry] "+&r"(entry), [phase] "+&r"(phase)
            : [limit] "i"(kLastCoefficient), [zero] "r"(zero), [next_entry] "r"(next_entry),
              [next_phase] "r"(next_phase)
            : "cc");
#elif defined(__aarch64__)
    AnyPhase* next_phase = phase + 1;
    __asm__("cmp %w[position], %[limit]\n\t"
            "csel %w[position], %w[zero], %w[position], hs\n\t"
            "csel %[entry], %[next_entry], %[entry], hs\n\t"
            "csel %[phase], %[next_phase], %[phase], hs"
            : [position] "+&r"(position), [entry] "+&r"(entry), [phase] "+&r"(phase)
            : [limit] "i"(kLastCoefficient), [zero] "r"(zero), [next_entry] "r"(next_entry),
              [next_phase] "r"(next_phase)
            : "cc");
#else
    const bool ended = position >= kLastCoefficient;
    entry = ended ? next_entry : entry;
    position = ended ? zero : position;
    phase += ended;
#endif
}

// Decodes one symbol that the lookup does not decide; returns its entry.
[[gnu::noinline, gnu::cold]] std::uint64_t decode_undecided(const CodeBook& codes, BitWindow& in) {
    in.refill();
    const std::uint64_t entry = codes.decode(in.window);
    in.drop(Entry::bits(entry));
    in.refill();
    return entry;
}

// Decodes up to two symbols of a phase. Neither the change from DC to AC nor that from block to block is a branch: the
// entries of both tables are loaded, and one of them is taken.
[[gnu::always_inline]] inline void decode_step(BitWindow& in, unsigned& position, std::uint64_t& entry, Phase*& phase) {
    const unsigned first = position + Entry::first_step(entry);
    unsigned last = position + Entry::step(entry);
    std::int16_t* block = phase->block;
    const std::uint64_t beyond = in.window << kLookupBits >> 1 >> Entry::shift(entry);
    block[kOrder[last]] = Entry::value(entry);
    block[kOrder[first]] = static_cast<std::int16_t>(Entry::first_value(entry) + static_cast<std::uint32_t>(beyond));
    if (first >= kLastCoefficient) [[unlikely]] {
        BitWindow at = in;
        entry = decode_undecided(*phase->table->codes, at);
        in = at;
        block[kOrder[position + Entry::first_step(entry)]] = static_cast<std::int16_t>(Entry::first_value(entry));
        last = position + Entry::step(entry);
    } else {
        in.drop(Entry::bits(entry));
    }
    phase->last = last;
    position = last;
    entry = in.lookup(phase[0]);
    move_on(position, entry, phase, in.lookup(phase[1]), 0);
}

// A stream within its phases.
struct SymbolState {
    BitWindow in;
    unsigned position;
    std::uint64_t entry;
    Phase* phase;

    explicit SymbolState(const SymbolRun& run)
        : in{run.stream->window, run.stream->bits, run.stream->next}, position(0), phase(run.phase) {
        in.refill();
        entry = in.lookup(*phase);
    }
    [[gnu::always_inline]] void step() { decode_step(in, position, entry, phase); }
};

// Decodes the remaining phases before `end`.
[[gnu::always_inline]] inline void decode_rest(BitWindow in, unsigned position, std::uint64_t entry, Phase* phase,
                                               const Phase* end, SymbolStream& stream) {
    while (true) {
        decode_step(in, position, entry, phase);
        if (phase == end) break;
        decode_step(in, position, entry, phase);
        if (phase == end) break;
        in.refill();
    }
    stream = {in.next, in.window, in.bits};
}

void decode_symbols(SymbolStream& stream, Phase* phase, const Phase* end) {
    BitWindow in{stream.window, stream.bits, stream.next};
    in.refill();
    decode_rest(in, 0, in.lookup(*phase), phase, end, stream);
}

// Takes a step of each in turn: while one waits for a table, the other goes on.
void decode_two(const SymbolRun& one, const SymbolRun& other) {
    SymbolState a(one), b(other);
    while (true) {
        a.step();
        if (a.phase == one.end) break;
        b.step();
        if (b.phase == other.end) break;
        a.step();
        if (a.phase == one.end) break;
        b.step();
        if (b.phase == other.end) break;
        a.in.refill();
        b.in.refill();
    }
    const bool ended = a.phase == one.end;
    SymbolState& rest = ended ? b : a;
    rest.in.refill();
    const SymbolState& done = ended ? a : b;
    *(ended ? one : other).stream = {done.in.next, done.in.window, done.in.bits};
    const SymbolRun& left = ended ? other : one;
    decode_rest(rest.in, rest.position, rest.entry, rest.phase, left.end, *left.stream);
}

// The same without storing values. Returns all positions, joined by `or`.
unsigned skip_symbols(SymbolStream& stream, SkipPhase* phase, const SkipPhase* end) {
    BitWindow in{stream.window, stream.bits, stream.next};
    in.refill();
    unsigned position = 0, positions = 0;
    std::uint64_t entry = in.lookup(*phase);
    const auto step = [&]() __attribute__((always_inline)) {
        const unsigned first = position + Entry::first_step(entry);
        phase->window = in.window;
        if (first >= kLastCoefficient) [[unlikely]] {
            BitWindow at = in;
            at.refill();
            phase->window = at.window;
            entry = decode_undecided(*phase->table->codes, at);
            in = at;
        } else {
            in.drop(Entry::bits(entry));
        }
        position += Entry::step(entry);
        positions |= position;
        entry = in.lookup(phase[0]);
        move_on(position, entry, phase, in.lookup(phase[1]), 0);
    };
    while (true) {
        step();
        if (phase == end) break;
        step();
        if (phase == end) break;
        in.refill();
    }
    stream = {in.next, in.window, in.bits};
    return positions;
}

}  // namespace
}  // namespace stoker::jpeg
