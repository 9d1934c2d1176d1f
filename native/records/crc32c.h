// The checksum of payloads and records: CRC32C (Castagnoli polynomial, RFC 3720 appendix B.4), not masked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// Returns the checksum of all bytes so far, where `value` is the checksum of the bytes before these; 0 for none.
std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t value = 0);

}  // namespace stoker
