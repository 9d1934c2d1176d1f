#include "masks/inflate.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bits are read in the order of the bytes in memory");

constexpr int kEndOfBlock = 256;
constexpr std::uint16_t kLengthBase[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::uint8_t kLengthBits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                        2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::uint16_t kDistanceBase[] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,
                                           33,  49,  65,  97,  129, 193,  257,  385,  513,  769,
                                           1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::uint8_t kDistanceBits[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                          6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
// The order in which a stream has the lengths of the code of lengths.
constexpr std::uint8_t kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

}  // namespace

bool HuffmanCode::set(const std::uint8_t* lengths, int count) {
    counts_.fill(0);
    for (int i = 0; i < count; ++i) ++counts_[lengths[i]];
    counts_[0] = 0;
    std::array<std::uint16_t, kMaxCodeLength + 2> next_index{}, codes{};
    int left = 1, longest = 0;
    for (int length = 1; length <= kMaxCodeLength; ++length) {
        left = 2 * left - counts_[length];
        if (left < 0) return false;  // more code words than there can be
        if (counts_[length] != 0) longest = length;
        next_index[length + 1] = static_cast<std::uint16_t>(next_index[length] + counts_[length]);
        codes[length + 1] = static_cast<std::uint16_t>((codes[length] + counts_[length]) << 1);
    }
    if (left > 0 && longest > 1) return false;  // too few code words; only a code of one word may be incomplete
    table_.fill({0, 0});
    for (int symbol = 0; symbol < count; ++symbol) {
        const int length = lengths[symbol];
        if (length == 0) continue;
        symbols_[next_index[length]++] = static_cast<std::uint16_t>(symbol);
        unsigned code = codes[length]++, reversed = 0;
        if (length > kTableBits) continue;
        for (int bit = 0; bit < length; ++bit, code >>= 1) reversed = reversed << 1 | (code & 1);
        for (unsigned entry = reversed; entry < table_.size(); entry += 1U << length)
            table_[entry] = {static_cast<std::uint16_t>(symbol), static_cast<std::uint8_t>(length)};
    }
    return true;
}

inline int HuffmanCode::decode(std::uint64_t bits, int& length) const {
    const Entry entry = table_[bits & (table_.size() - 1)];
    length = entry.length;
    return length != 0 ? entry.symbol : decode_long(bits, length);
}

int HuffmanCode::decode_long(std::uint64_t bits, int& length) const {
    int code = 0, first = 0, index = 0;
    for (length = 1; length <= kMaxCodeLength; ++length, bits >>= 1) {
        code |= static_cast<int>(bits & 1);
        const int count = counts_[length];
        if (code - first < count) return symbols_[index + code - first];
        index += count;
        first = (first + count) << 1;
        code <<= 1;
    }
    return -1;
}

bool Inflate::run(const std::uint8_t* data, std::size_t length, std::uint8_t* out, std::size_t size) {
    constexpr int deflate = 8, dictionary = 1 << 5, largest_window = 7;
    if (length < 2 || (data[0] & 15) != deflate || data[0] >> 4 > largest_window || (data[1] & dictionary) != 0 ||
        (256 * data[0] + data[1]) % 31 != 0)
        return false;
    at_ = data + 2;
    end_ = data + length;
    bits_ = 0;
    count_ = 0;
    out_ = out;
    written_ = 0;
    size_ = size;
    while (written_ < size_) {
        std::uint32_t last = 0, kind = 0;
        if (!read_bits(1, last) || !read_bits(2, kind)) return false;
        const bool good = kind == 0 ? copy_stored() : kind == 3 ? false : kind == 1 ? use_fixed_codes() : read_codes();
        if (!good || (kind != 0 && !decode_symbols())) return false;
        if (last != 0) break;
    }
    return written_ == size_;
}

// Reads bits until there are at least 56, or all that are left.
inline void Inflate::refill() {
    if (end_ - at_ >= 8) {
        std::uint64_t next;
        std::memcpy(&next, at_, 8);
        bits_ |= next << count_;
        at_ += (63 - count_) >> 3;
        count_ |= 56;
        return;
    }
    for (; count_ <= 56 && at_ < end_; count_ += 8) bits_ |= std::uint64_t{*at_++} << count_;
}

bool Inflate::read_bits(int count, std::uint32_t& value) {
    refill();
    if (count_ < count) return false;
    value = static_cast<std::uint32_t>(bits_ & ((std::uint64_t{1} << count) - 1));
    bits_ >>= count;
    count_ -= count;
    return true;
}

bool Inflate::copy_stored() {
    // A stored block starts at a byte: return the whole bytes that are among the bits.
    at_ -= count_ / 8;
    bits_ = 0;
    count_ = 0;
    if (end_ - at_ < 4) return false;
    const std::size_t length = at_[0] | at_[1] << 8, check = at_[2] | at_[3] << 8;
    at_ += 4;
    if ((length ^ check) != 0xffff || static_cast<std::size_t>(end_ - at_) < length) return false;
    const std::size_t taken = std::min(length, size_ - written_);
    std::memcpy(out_ + written_, at_, taken);
    written_ += taken;
    at_ += length;
    return true;
}

// The codes of RFC 1951, 3.2.6.
bool Inflate::use_fixed_codes() {
    std::array<std::uint8_t, 288> lengths{};
    std::fill_n(lengths.begin(), 144, std::uint8_t{8});
    std::fill_n(lengths.begin() + 144, 112, std::uint8_t{9});
    std::fill_n(lengths.begin() + 256, 24, std::uint8_t{7});
    std::fill_n(lengths.begin() + 280, 8, std::uint8_t{8});
    if (!literals_.set(lengths.data(), 288)) return false;
    lengths.fill(5);
    return distances_.set(lengths.data(), 32);
}

bool Inflate::read_codes() {
    std::uint32_t literals = 0, distances = 0, own = 0;
    if (!read_bits(5, literals) || !read_bits(5, distances) || !read_bits(4, own)) return false;
    literals += 257;
    distances += 1;
    if (literals > 286 || distances > 30) return false;
    std::array<std::uint8_t, 320> lengths{};
    for (std::uint32_t i = 0; i < own + 4; ++i) {
        std::uint32_t length = 0;
        if (!read_bits(3, length)) return false;
        lengths[kOrder[i]] = static_cast<std::uint8_t>(length);
    }
    if (!literals_.set(lengths.data(), 19)) return false;
    for (std::uint32_t i = 0; i < literals + distances;) {
        refill();
        int used = 0;
        const int symbol = literals_.decode(bits_, used);
        std::uint32_t repeat = 1;
        if (symbol < 0 || !read_bits(used, repeat)) return false;
        std::uint8_t value = static_cast<std::uint8_t>(symbol);
        repeat = 1;
        if (symbol >= 16) {
            if (symbol == 16 && i == 0) return false;
            value = symbol == 16 ? lengths[i - 1] : 0;
            if (!read_bits(symbol == 16 ? 2 : symbol == 17 ? 3 : 7, repeat)) return false;
            repeat += symbol == 18 ? 11 : 3;
        }
        if (i + repeat > literals + distances) return false;
        std::fill_n(lengths.begin() + i, repeat, value);
        i += repeat;
    }
    return literals_.set(lengths.data(), static_cast<int>(literals)) &&
           distances_.set(lengths.data() + literals, static_cast<int>(distances));
}

bool Inflate::decode_symbols() {
    while (written_ < size_) {
        refill();  // enough bits for a length and a distance: 15 + 5 + 15 + 13
        int used = 0;
        const int symbol = literals_.decode(bits_, used);
        if (symbol < 0 || used > count_) return false;
        bits_ >>= used;
        count_ -= used;
        if (symbol < kEndOfBlock) {
            out_[written_++] = static_cast<std::uint8_t>(symbol);
            continue;
        }
        if (symbol == kEndOfBlock) return true;
        const std::size_t kind = static_cast<std::size_t>(symbol) - 257;
        if (kind >= std::size(kLengthBase)) return false;
        const std::size_t length = kLengthBase[kind] + (bits_ & ((1U << kLengthBits[kind]) - 1));
        bits_ >>= kLengthBits[kind];
        count_ -= kLengthBits[kind];
        const int far = distances_.decode(bits_, used);
        if (far < 0 || static_cast<std::size_t>(far) >= std::size(kDistanceBase)) return false;
        bits_ >>= used;
        const std::size_t distance = kDistanceBase[far] + (bits_ & ((1U << kDistanceBits[far]) - 1));
        bits_ >>= kDistanceBits[far];
        count_ -= used + kDistanceBits[far];
        if (count_ < 0 || !copy(distance, length)) return false;
    }
    return true;
}

bool Inflate::copy(std::size_t distance, std::size_t length) {
    if (distance > written_) return false;
    std::uint8_t* to = out_ + written_;
    length = std::min(length, size_ - written_);
    written_ += length;
    if (distance == 1) {
        std::memset(to, to[-1], length);
    } else if (distance >= kInflateSlack) {
        for (std::size_t done = 0; done < length; done += kInflateSlack)
            std::memcpy(to + done, to + done - distance, kInflateSlack);
    } else {
        for (std::size_t i = 0; i < length; ++i) to[i] = to[i - distance];
    }
    return true;
}

}  // namespace stoker
