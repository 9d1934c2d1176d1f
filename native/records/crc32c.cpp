#include "records/crc32c.h"

#include <array>

#include "cpu/cpu.h"
#include "records/crc32c_lanes.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace stoker {

#if defined(__x86_64__)
std::uint32_t crc32c_sse42(const std::uint8_t* data, std::size_t size, std::uint32_t value);
#elif defined(__aarch64__)
std::uint32_t crc32c_armv8(const std::uint8_t* data, std::size_t size, std::uint32_t value);
#endif

namespace {

using Function = std::uint32_t (*)(const std::uint8_t*, std::size_t, std::uint32_t);

std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (kCrcPolynomial & (0U - (crc & 1)));
        table[byte] = crc;
    }
    return table;
}

std::uint32_t crc32c_table(const std::uint8_t* data, std::size_t size, std::uint32_t value) {
    static const std::array<std::uint32_t, 256> table = make_table();
    std::uint32_t crc = ~value;
    for (; size > 0; --size, ++data) crc = (crc >> 8) ^ table[(crc ^ *data) & 255];
    return ~crc;
}

Function choose() {
#if defined(__x86_64__)
    if (cpu_features().sse42) return crc32c_sse42;
#elif defined(__aarch64__) && defined(__linux__)
    constexpr unsigned long hwcap_crc32 = 1UL << 7;
    if (getauxval(AT_HWCAP) & hwcap_crc32) return crc32c_armv8;
#elif defined(__aarch64__) && defined(__APPLE__)
    return crc32c_armv8;  // every Apple processor has the instruction
#endif
    return crc32c_table;
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t value) {
    static const Function function = choose();
    return function(static_cast<const std::uint8_t*>(data), size, value);
}

}  // namespace stoker
