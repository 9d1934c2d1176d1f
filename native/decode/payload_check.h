// The check of a payload that somebody else will decode.
#pragma once

#include <cstddef>
#include <cstdint>

#include "decode/size_check.h"
#include "records/sample_columns.h"
#include "records/shards.h"

namespace stoker {

struct CheckOptions {
    std::int64_t max_pixels = 0;
    bool verify = true;
};

// Checks the checksum of sample `i`, then what its codec checks without decoding; of codecs that are not decoded
// here, the checksum alone.
CheckResult check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                          const CheckOptions& options);

}  // namespace stoker
