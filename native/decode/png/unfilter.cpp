#include "decode/png/unfilter.h"

#include <cstdlib>

#include "cpu/cpu.h"

namespace stoker::png {

#if defined(__x86_64__)
extern const UndoFilters undo_filters_avx2;
#endif

namespace {

// The predictor of the filter "Paeth".
int paeth(int left, int above, int corner) {
    const int from_left = std::abs(above - corner), from_above = std::abs(left - corner);
    const int from_corner = std::abs(left + above - 2 * corner);
    if (from_left <= from_above && from_left <= from_corner) return left;
    return from_above <= from_corner ? above : corner;
}

void undo(int filter, std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::size_t step) {
    for (std::size_t i = 0; i < bytes; ++i) {
        const int left = i < step ? 0 : row[i - step], corner = i < step ? 0 : above[i - step];
        const int predicted[kFilters] = {0, left, above[i], (left + above[i]) / 2, paeth(left, above[i], corner)};
        row[i] = static_cast<std::uint8_t>(row[i] + predicted[filter]);
    }
}

void undo_rows(const FilteredRows& rows, std::vector<std::uint8_t>& scratch) {
    scratch.assign(rows.bytes, 0);
    const std::uint8_t* above = scratch.data();
    for (std::size_t i = 0; i < rows.count; ++i) {
        std::uint8_t* row = rows.row(i);
        if (row[0] != 0) undo(row[0], row + 1, above, rows.bytes, rows.step);
        above = row + 1;
    }
}

}  // namespace

UndoFilters undo_filters() {
#if defined(__x86_64__)
    if (cpu_level() == CpuLevel::avx2 || cpu_level() == CpuLevel::avx512) return undo_filters_avx2;
#endif
    return undo_rows;
}

}  // namespace stoker::png
