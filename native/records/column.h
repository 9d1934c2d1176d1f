// Columns: descriptions of the arrays that Python passes for a batch.
//
// For each kind of work, C++ declares a struct of pointers, and a table with a Column for each member. Python packs
// its arrays by the table, and the binding checks and unpacks them by the same table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace stoker {

enum class ElementType : std::uint8_t { boolean, uint8, int16, int32, int64, uint32, uint64, float32, float64 };

// The size of a dimension that may have any size.
constexpr std::size_t kAnySize = static_cast<std::size_t>(-1);

// Rows whose size the array decides.
template <class T>
struct RowsOfAnySize {
    const T* data = nullptr;
    std::size_t row_size = 0;

    const T* row(std::size_t i) const { return data + i * row_size; }
};

// An array that passed the check: its first element, and the number of elements in a row. The pointer is null
// for an optional array that is missing.
struct ColumnValue {
    const void* data = nullptr;
    std::size_t row_size = 0;
};

struct Column {
    const char* name;
    ElementType type;
    bool per_sample;  // whether each sample has a row; otherwise all samples share the array
    bool optional;
    int dimensions;  // of a row
    std::array<std::size_t, 2> shape;
    void (*set)(void* columns, const ColumnValue& value);  // stores a value in the struct of pointers

    std::span<const std::size_t> row_shape() const { return {shape.data(), static_cast<std::size_t>(dimensions)}; }
};

namespace detail {

template <class T>
constexpr ElementType element_type() {
    if constexpr (std::is_same_v<T, bool>) return ElementType::boolean;
    if constexpr (std::is_same_v<T, std::uint8_t>) return ElementType::uint8;
    if constexpr (std::is_same_v<T, std::int16_t>) return ElementType::int16;
    if constexpr (std::is_same_v<T, std::int32_t>) return ElementType::int32;
    if constexpr (std::is_same_v<T, std::int64_t>) return ElementType::int64;
    if constexpr (std::is_same_v<T, std::uint32_t>) return ElementType::uint32;
    if constexpr (std::is_same_v<T, std::uint64_t>) return ElementType::uint64;
    if constexpr (std::is_same_v<T, float>) return ElementType::float32;
    if constexpr (std::is_same_v<T, double>) return ElementType::float64;
}

template <class>
struct Member;
template <class Struct, class T>
struct Member<const T* Struct::*> {
    using Owner = Struct;
    using Element = T;
    static const T* value(const ColumnValue& from) { return static_cast<const T*>(from.data); }
};
template <class Struct, class T>
struct Member<RowsOfAnySize<T> Struct::*> {
    using Owner = Struct;
    using Element = T;
    static RowsOfAnySize<T> value(const ColumnValue& from) { return {static_cast<const T*>(from.data), from.row_size}; }
};

template <auto member>
constexpr Column column(const char* name, bool per_sample, std::initializer_list<std::size_t> row_shape) {
    using Of = Member<decltype(member)>;
    Column column{.name = name,
                .type = element_type<typename Of::Element>(),
                .per_sample = per_sample,
                .optional = false,
                .dimensions = static_cast<int>(row_shape.size()),
                .shape = {},
                .set = [](void* columns, const ColumnValue& value) {
                    static_cast<typename Of::Owner*>(columns)->*member = Of::value(value);
                }};
    std::size_t i = 0;
    for (const std::size_t size : row_shape) column.shape[i++] = size;
    return column;
}

}  // namespace detail

// Returns the column of a struct's member, with a row of this shape for each sample.
template <auto member>
constexpr Column per_sample(const char* name, std::initializer_list<std::size_t> row_shape = {}) {
    return detail::column<member>(name, true, row_shape);
}

// Returns the column of a struct's member, with one array of this shape for all samples.
template <auto member>
constexpr Column per_batch(const char* name, std::initializer_list<std::size_t> shape = {}) {
    return detail::column<member>(name, false, shape);
}

constexpr Column optional(Column column) {
    column.optional = true;
    return column;
}

// Returns the struct of pointers to checked arrays, given in the order of the table.
template <class Columns>
Columns columns_from(std::span<const Column> table, std::span<const ColumnValue> values) {
    Columns columns{};
    for (std::size_t i = 0; i < table.size(); ++i) table[i].set(&columns, values[i]);
    return columns;
}

}  // namespace stoker
