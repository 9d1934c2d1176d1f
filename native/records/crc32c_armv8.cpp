#if defined(__aarch64__)
#include <arm_acle.h>

#include "records/crc32c_lanes.h"

namespace stoker {

std::uint32_t crc32c_armv8(const std::uint8_t* data, std::size_t size, std::uint32_t value) {
    return crc_hardware(
        data, size, value,
        [](std::uint64_t crc, std::uint64_t word) -> std::uint64_t {
            return __crc32cd(static_cast<std::uint32_t>(crc), word);
        },
        [](std::uint64_t crc, std::uint8_t byte) -> std::uint64_t {
            return __crc32cb(static_cast<std::uint32_t>(crc), byte);
        });
}

}  // namespace stoker
#endif
