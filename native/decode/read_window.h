// The loop over the rows of a window of an image.
#pragma once

#include "decode/decoder.h"

namespace stoker {

// Decodes a window of the image that `decoder` has opened, at `eighths`/8 of its size. Calls take(rows, y, count) for
// every `count` rows from row `y` on.
template <class Take>
Outcome read_window(Decoder& decoder, const Window& window, int eighths, Take take) {
    if (!window.empty() && !decoder.start(window, eighths)) return decoder.failure();
    for (int y = window.top; y < window.bottom;) {
        const std::uint8_t* rows[Decoder::kMaxRows];
        const int count = decoder.read(rows);
        if (count == 0) return decoder.failure();
        take(rows, y, count);
        y += count;
    }
    decoder.finish();
    return {};
}

}  // namespace stoker
