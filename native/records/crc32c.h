// CRC32C (Castagnoli polynomial, RFC 3720 appendix B.4), not masked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// The checksum of `size` bytes that follow bytes whose checksum is `value` (0 for none).
std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t value = 0);

}  // namespace stoker
