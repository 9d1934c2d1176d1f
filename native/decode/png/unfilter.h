// The undoing of PNG's filters (PNG 3, clause 9).
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker::png {

// The number of bytes past the end of a row that may be read.
constexpr std::size_t kSlack = 2;

// Undoes the filter of a row in place. `above` is the row before it, unfiltered, or zeros; both have `bytes` bytes and
// kSlack more. `step` is the number of bytes of a pixel: 1, 2, 3, 4, 6 or 8. Returns false for an unknown filter.
using UndoFilter = bool (*)(int filter, std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::size_t step);

// Returns the function for cpu_level().
UndoFilter undo_filter();

}  // namespace stoker::png
