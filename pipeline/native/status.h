// What became of a sample; the numbers are those of stoker.pipeline.engines.base.Status.
#pragma once

#include <cstdint>

namespace stoker {

enum class Status : std::uint8_t {
    ok = 0,
    read_error = 1,
    checksum_mismatch = 2,
    not_decodable = 3,
    truncated = 4,
    too_large = 5,
    size_mismatch = 6,
};

}  // namespace stoker
