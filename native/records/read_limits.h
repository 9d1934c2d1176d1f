// How much of a file Linux reads ahead in one request.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace stoker {

// Returns the most bytes that Linux reads ahead for one call of madvise or posix_fadvise, for files of a device
// (`st_dev`). It ignores the rest of a longer call without an error. The number is the larger of the device's limit
// for readahead and its limit for a request. It is 128 KiB, the default of both, if the system does not name them.
std::int64_t read_ahead_limit(dev_t device);

}  // namespace stoker
