// What is seen of a payload before any decoder touches it.
#pragma once

#include <cstdint>
#include <string>

#include "decode/status.h"
#include "engine/batch.h"
#include "records/shards.h"

namespace stoker {

struct CheckResult {
    Status status = Status::ok;
    std::string reason;
};

// Of a source, so that the bytes of a row fit into an int.
constexpr std::int64_t kMaxSourceSide = 1 << 24;

// Whether an image has the size that the index says, and not too many pixels.
CheckResult check_size(std::int64_t height, std::int64_t width, std::int64_t indexed_height, std::int64_t indexed_width,
                   std::int64_t max_pixels);
// The same of raw pixels, by their bytes.
CheckResult check_raw(std::size_t bytes, std::int64_t height, std::int64_t width, std::int64_t max_pixels);

struct CheckOptions {
    std::int64_t max_pixels = 0;
    bool verify = true;
};

// Checksum, then by codec: a JPEG's header, size and end marker, the length of raw pixels. Of other codecs
// the checksum alone.
CheckResult check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                      const CheckOptions& options);

}  // namespace stoker
