// Arrays by name, checked against the tables of columns.
#pragma once

#include <span>
#include <vector>

#include "bind/bind.h"
#include "records/column.h"

namespace stoker {

// Arrays that C++ reads or writes, and that must live for as long.
using KeptArrays = std::vector<nb::ndarray<nb::ro>>;

// The arrays of `columns`, in the order of the table, each with `count` rows or one. Throws ValueError with the
// column's name for an array that is missing, unknown, not in the memory of the CPU, or of another type or shape.
std::vector<ColumnValue> check_columns(const nb::dict& arrays, std::span<const Column> columns, std::size_t count,
                                       KeptArrays& kept);

template <class Columns>
Columns unpack(const nb::dict& arrays, std::span<const Column> columns, std::size_t count, KeptArrays& kept) {
    return columns_from<Columns>(columns, check_columns(arrays, columns, count, kept));
}

// A table as Python sees it: a tuple of Column of the module `m`.
nb::tuple table_of(const nb::module_& m, std::span<const Column> columns);

}  // namespace stoker
