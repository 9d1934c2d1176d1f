// The undoing of PNG's filters (PNG 3, clause 9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker::png {

constexpr int kFilters = 5;  // none, left, up, average, Paeth

constexpr bool depends_on_row_above(int filter) { return filter >= 2; }

// Rows of an image as they are stored: each has the number of its filter, and then its bytes. The caller wants the first
// `bytes` of these.
struct FilteredRows {
    std::uint8_t* first = nullptr;  // the number of the first row's filter
    std::size_t stride = 0;         // from a row to the next
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t step = 1;  // bytes of a pixel: 1, 2, 3, 4, 6 or 8

    std::uint8_t* row(std::size_t i) const { return first + i * stride; }
    bool have_known_filters() const {
        for (std::size_t i = 0; i < count; ++i)
            if (*row(i) >= kFilters) return false;
        return true;
    }
};

// Undoes the known filters of rows in place. Zeros stand above the first row. `scratch` is memory to work in.
using UndoFilters = void (*)(const FilteredRows& rows, std::vector<std::uint8_t>& scratch);

// Returns the function for cpu_level().
UndoFilters undo_filters();

}  // namespace stoker::png
