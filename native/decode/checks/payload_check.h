// The reading of payloads, and their checks without decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/checks/size_check.h"
#include "records/sample_columns.h"
#include "records/shards.h"

namespace stoker {

// Finds the payload of sample `i`, in a mapping or read into `storage`. Throws std::system_error.
CheckResult read_payload(const DataFiles& files, const SampleColumns& samples, std::size_t i,
                         std::vector<std::uint8_t>& storage, Payload& payload);

// Checks the checksum of the payload of sample `i`, if the index has one.
CheckResult check_crc(const Payload& payload, const SampleColumns& samples, std::size_t i);

struct CheckOptions {
    std::int64_t max_pixels = 0;
    bool verify = true;
};

// Checks the checksum of sample `i`, then what its codec checks without decoding. For codecs that C++ does not
// decode, it checks the checksum only.
CheckResult check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                          const CheckOptions& options);

}  // namespace stoker
