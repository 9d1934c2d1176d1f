#if defined(__x86_64__)
#include <nmmintrin.h>

#include "records/crc32c_lanes.h"

namespace stoker {

std::uint32_t crc32c_sse42(const std::uint8_t* data, std::size_t size, std::uint32_t value) {
    return crc_hardware(
        data, size, value, [](std::uint64_t crc, std::uint64_t word) { return _mm_crc32_u64(crc, word); },
        [](std::uint64_t crc, std::uint8_t byte) -> std::uint64_t {
            return _mm_crc32_u8(static_cast<std::uint32_t>(crc), byte);
        });
}

}  // namespace stoker
#endif
