// CRC32C in three interleaved lanes, by an instruction that takes eight bytes.
//
// The instruction has a latency of about three cycles and a throughput of one for each cycle. So three
// independent checksums take the time of one. They are joined by a multiplication with x^(8 * lane) modulo the
// polynomial, in the bit-reflected representation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stoker {

constexpr std::uint32_t kCrcPolynomial = 0x82F63B78;
constexpr std::size_t kCacheLine = 64;

constexpr std::uint32_t crc_multiply(std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (int bit = 0; bit < 32; ++bit) {
        product ^= b & (0U - (a >> 31));
        a <<= 1;
        b = (b >> 1) ^ (kCrcPolynomial & (0U - (b & 1)));
    }
    return product;
}

// Returns x^(8 * bytes) for a number of bytes that is a power of two.
constexpr std::uint32_t crc_power(std::size_t bytes) {
    std::uint32_t power = 0x00800000;  // x^8
    for (; bytes > 1; bytes /= 2) power = crc_multiply(power, power);
    return power;
}

template <class Step>
std::uint64_t crc_serial(const std::uint8_t* data, std::size_t words, std::uint64_t crc, Step step) {
    for (; words > 0; --words, data += 8) {
        std::uint64_t word;
        std::memcpy(&word, data, 8);
        crc = step(crc, word);
    }
    return crc;
}

template <std::size_t lane, class Step>
std::uint64_t crc_lanes(const std::uint8_t*& data, std::size_t& size, std::uint64_t crc, Step step) {
    constexpr std::uint32_t one = crc_power(lane);
    constexpr std::uint32_t two = crc_multiply(one, one);
    for (; size >= 3 * lane; size -= 3 * lane, data += 3 * lane) {
        std::uint64_t a = crc, b = 0, c = 0;
        // The processor prefetches within a page only, and a lane is as long as a page. Without this, each lane
        // would begin with a cache miss.
        const std::size_t ahead = size >= 6 * lane ? 3 * lane : 0;
        for (std::size_t i = 0; i < lane; i += 8) {
            if (i % kCacheLine == 0)
                for (std::size_t at = i; at < 3 * lane; at += lane) __builtin_prefetch(data + ahead + at);
            std::uint64_t words[3];
            std::memcpy(&words[0], data + i, 8);
            std::memcpy(&words[1], data + i + lane, 8);
            std::memcpy(&words[2], data + i + 2 * lane, 8);
            a = step(a, words[0]);
            b = step(b, words[1]);
            c = step(c, words[2]);
        }
        crc = crc_multiply(static_cast<std::uint32_t>(a), two) ^ crc_multiply(static_cast<std::uint32_t>(b), one) ^ c;
    }
    return crc;
}

// `step` takes eight bytes, `step8` takes one.
template <class Step, class Step8>
std::uint32_t crc_hardware(const std::uint8_t* data, std::size_t size, std::uint32_t value, Step step, Step8 step8) {
    std::uint64_t crc = ~value;
    crc = crc_lanes<4096>(data, size, crc, step);
    crc = crc_lanes<512>(data, size, crc, step);
    crc = crc_serial(data, size / 8, crc, step);
    for (data += size / 8 * 8, size %= 8; size > 0; --size, ++data) crc = step8(crc, *data);
    return ~static_cast<std::uint32_t>(crc);
}

}  // namespace stoker
