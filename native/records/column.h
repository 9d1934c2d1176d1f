// The description of an array that Python passes for a batch: its name, element type and shape.
//
// A struct of pointers and a table of its columns are all that one kind of work declares: the binding checks and
// unpacks arrays by the table, and Python packs them by it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace stoker {

enum class ElementType : std::uint8_t { boolean, uint8, int16, int32, int64, uint32, uint64, float32, float64 };

// The size of a dimension that only the array tells.
constexpr std::size_t kAnySize = static_cast<std::size_t>(-1);

// Rows of a size that only the array tells.
template <class T>
struct RowsOfAnySize {
    const T* data = nullptr;
    std::size_t row_size = 0;

    const T* row(std::size_t i) const { return data + i * row_size; }
};

// An array that was checked: its first element and the number of elements in a row; null for an optional one that
// is not there.
struct ColumnValue {
    const void* data = nullptr;
    std::size_t row_size = 0;
};

struct Column {
    const char* name;
    ElementType type;
    bool per_sample;  // one row for each sample of the batch; otherwise one for all
    bool optional;
    int dimensions;  // of a row
    std::array<std::size_t, 2> shape;
    void (*set)(void* columns, const ColumnValue& value);  // stores the value in the struct of pointers

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
    Column made{.name = name,
                .type = element_type<typename Of::Element>(),
                .per_sample = per_sample,
                .optional = false,
                .dimensions = static_cast<int>(row_shape.size()),
                .shape = {},
                .set = [](void* columns, const ColumnValue& value) {
                    static_cast<typename Of::Owner*>(columns)->*member = Of::value(value);
                }};
    std::size_t i = 0;
    for (const std::size_t size : row_shape) made.shape[i++] = size;
    return made;
}

}  // namespace detail

// The column of a member of a struct, with a row of this shape for each sample.
template <auto member>
constexpr Column per_sample(const char* name, std::initializer_list<std::size_t> row_shape = {}) {
    return detail::column<member>(name, true, row_shape);
}

// The column of a member of a struct, of this shape, that all samples share.
template <auto member>
constexpr Column per_batch(const char* name, std::initializer_list<std::size_t> shape = {}) {
    return detail::column<member>(name, false, shape);
}

constexpr Column optional(Column column) {
    column.optional = true;
    return column;
}

// The struct of pointers to checked arrays, which come in the order of the table.
template <class Columns>
Columns columns_from(std::span<const Column> table, std::span<const ColumnValue> values) {
    Columns columns{};
    for (std::size_t i = 0; i < table.size(); ++i) table[i].set(&columns, values[i]);
    return columns;
}

}  // namespace stoker
