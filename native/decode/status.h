// The status of a sample. The numbers are those of stoker.pipeline.engines.base.Status.
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

// A status and its reason. The message is valid until the object that returned it works on the next sample.
struct Outcome {
    Status status = Status::ok;
    const char* message = "";

    bool ok() const { return status == Status::ok; }
};

// The message of Status::checksum_mismatch.
inline constexpr const char* kChecksumDiffers = "CRC32C differs from the index";

}  // namespace stoker
