// The check of arrays, given by name, against a table of columns.
#pragma once

#include <span>
#include <vector>

#include "bind/bind.h"
#include "records/column.h"

namespace stoker {

// Arrays that C++ reads or writes, which stay alive as long as this list.
using KeptArrays = std::vector<nb::ndarray<nb::ro>>;

// Checks the arrays of a batch of `count` samples and returns them in the order of the table. Throws ValueError, with
// the column's name, for an array that is missing, unknown, or of another type, shape or device.
std::vector<ColumnValue> check_columns(const nb::dict& arrays, std::span<const Column> columns, std::size_t count,
                                       KeptArrays& kept);

template <class Columns>
Columns unpack(const nb::dict& arrays, std::span<const Column> columns, std::size_t count, KeptArrays& kept) {
    return columns_from<Columns>(columns, check_columns(arrays, columns, count, kept));
}

// Returns a table for Python: a tuple of the module's class Column.
nb::tuple table_of(const nb::module_& m, std::span<const Column> columns);

}  // namespace stoker
