// The header of an image file, found by reading only the start and the end of the file.
#pragma once

#include <cstdint>
#include <string>

#include "decode/header.h"

namespace stoker {

// Reads the header of a JPEG file of `size` bytes, whose frame header lies in its first 16 KiB and which ends with its
// end marker. Returns false for any other file, and for one that cannot be read or is damaged.
bool probe_jpeg_file(const std::string& path, std::int64_t size, Header& header);

}  // namespace stoker
