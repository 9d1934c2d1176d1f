// The offsets of MCUs, rows and restart intervals in a JPEG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "records/shards.h"

namespace stoker {

// What the headers of a sequential JPEG with one scan say, where its restart intervals divide the rows of MCUs.
struct RestartLayout {
    int height = 0, width = 0;      // of the stored image
    int mcu_height = 8, mcu_width = 8;
    int interval = 0;               // MCUs between two restart markers
    std::size_t size_at = 0;        // the offset of the height in the payload; the width follows
    std::size_t scan = 0;           // the offset of the entropy-coded data

    int rows() const { return (height + mcu_height - 1) / mcu_height; }
    int mcus_per_row() const { return (width + mcu_width - 1) / mcu_width; }
    int intervals_per_row() const { return mcus_per_row() / interval; }
    // The number of pixels beside a region that the interpolation of chroma may look at.
    int margin_y() const { return mcu_height > 8 ? mcu_height / 8 : 0; }
    int margin_x() const { return mcu_width > 8 ? mcu_width / 8 : 0; }
};

// Returns the layout of a JPEG, or nothing if it has another form or its headers are damaged. The bytes may end with the
// headers.
std::optional<RestartLayout> read_layout(const Payload& jpeg);

// Returns the first byte of each restart interval, or nothing if the markers are not those of the layout.
std::vector<std::size_t> interval_starts(const Payload& jpeg, const RestartLayout& layout);

// The number of MCUs between two restart markers that Stoker writes, for an image with so many MCUs in a row: each row
// has 4 intervals of the same length, or the most below 4 that divide it.
unsigned restart_interval(unsigned mcus_per_row);

}  // namespace stoker
