// Restart markers in JPEGs that are encoded already, without loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "records/shards.h"

namespace stoker {

// A JPEG with restart markers, or the reason why there is none.
struct RestartMarked {
    std::vector<std::uint8_t> payload;
    std::string reason;  // a kind of image; empty if there is a payload
    std::string detail;  // libjpeg's message, or empty
};

// Copies the coefficients of a JPEG into a sequential one with restart markers (see restart_interval) and Huffman
// tables of its own. Pixels, EXIF, colour profile and all other segments of applications stay the same; data after the
// image are left out. There is no payload for images that are damaged or that cannot be copied. Throws std::bad_alloc.
RestartMarked mark_restarts(const Payload& jpeg);

}  // namespace stoker
