// The check of a payload that another decoder than C++'s will decode.
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

// Checks the checksum of sample `i`, then what its codec checks without decoding. For codecs that C++ does not
// decode, it checks the checksum only.
CheckResult check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                          const CheckOptions& options);

}  // namespace stoker
