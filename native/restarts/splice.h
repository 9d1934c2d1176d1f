// Smaller JPEGs out of the restart intervals of a JPEG that show a rectangle of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decode/checks/size_check.h"
#include "pixels/rectangle.h"
#include "records/shards.h"
#include "restarts/bands.h"

namespace stoker {

// A JPEG that shows a part of another, the position of its first pixel there, and facts about the other.
struct Spliced {
    std::vector<std::uint8_t> jpeg;
    Size whole{};                    // its size
    std::size_t bytes_looked_at = 0;  // its headers, and the bands of the part
    int top = 0;
    int left = 0;
};

// Returns a JPEG of the intervals that show `crop`, a rectangle of the stored image, and of those beside them that the
// interpolation of chroma looks at: it shows the crop with the pixels that the whole image has. Without such intervals,
// or where the crop needs all of them, there is no JPEG. It reads only the headers and the bands of the crop, compares
// their checksums if `verify`, and sets `check` to the result.
std::optional<Spliced> splice(const Payload& jpeg, const Bands& bands, const Rectangle& crop, bool verify,
                              CheckResult& check);

}  // namespace stoker
