// What is seen of a payload before any decoder touches it.
#pragma once

#include <cstdint>
#include <string>

#include "batch.h"
#include "shards.h"
#include "status.h"

namespace stoker {

struct Finding {
    Status status = Status::ok;
    std::string reason;
};

struct CheckOptions {
    std::int64_t max_pixels = 0;
    bool verify = true;
};

// Checksum, then by codec: a JPEG's header, size and end marker, the length of raw pixels. Of other codecs
// the checksum alone.
Finding check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                      const CheckOptions& options);

}  // namespace stoker
