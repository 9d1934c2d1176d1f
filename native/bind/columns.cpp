#include "bind/columns.h"

#include <algorithm>

namespace stoker {
namespace {

struct TypeName {
    ElementType type;
    const char* name;  // NumPy's
    nb::dlpack::dtype dtype;
};

const TypeName& type_name(ElementType type) {
    static const TypeName names[] = {
        {ElementType::boolean, "bool", nb::dtype<bool>()},
        {ElementType::uint8, "uint8", nb::dtype<std::uint8_t>()},
        {ElementType::int16, "int16", nb::dtype<std::int16_t>()},
        {ElementType::int32, "int32", nb::dtype<std::int32_t>()},
        {ElementType::int64, "int64", nb::dtype<std::int64_t>()},
        {ElementType::uint32, "uint32", nb::dtype<std::uint32_t>()},
        {ElementType::uint64, "uint64", nb::dtype<std::uint64_t>()},
        {ElementType::float32, "float32", nb::dtype<float>()},
        {ElementType::float64, "float64", nb::dtype<double>()},
    };
    return *std::find_if(std::begin(names), std::end(names), [type](const TypeName& one) { return one.type == type; });
}

[[noreturn]] void refuse(const char* name, const std::string& rule) {
    throw nb::value_error(("column '" + std::string(name) + "' " + rule).c_str());
}

// Returns a shape as Python writes it.
std::string shape_text(std::span<const std::size_t> shape) {
    std::string text;
    for (const std::size_t size : shape) text += (size == kAnySize ? "any" : std::to_string(size)) + ", ";
    if (shape.size() > 1) text.resize(text.size() - 2);
    if (shape.size() == 1) text.pop_back();
    return "(" + text + ")";
}

[[noreturn]] void refuse_shape(const Column& column, std::size_t count, const nb::ndarray<nb::ro>& array) {
    std::vector<std::size_t> needed, shape;
    if (column.per_sample) needed.push_back(count);
    needed.insert(needed.end(), column.row_shape().begin(), column.row_shape().end());
    for (std::size_t i = 0; i < array.ndim(); ++i) shape.push_back(array.shape(i));
    refuse(column.name, "must have the shape " + shape_text(needed) + "; found " + shape_text(shape));
}

bool has_shape(const nb::ndarray<nb::ro>& array, const Column& column, std::size_t count) {
    const std::span<const std::size_t> row = column.row_shape();
    const std::size_t first = column.per_sample ? 1 : 0;  // of the dimensions of a row
    if (array.ndim() != first + row.size() || (first == 1 && array.shape(0) != count)) return false;
    for (std::size_t i = 0; i < row.size(); ++i)
        if (row[i] != kAnySize && row[i] != array.shape(first + i)) return false;
    return true;
}

bool is_contiguous(const nb::ndarray<nb::ro>& array) {
    std::int64_t stride = 1;
    for (std::size_t i = array.ndim(); i-- > 0; stride *= static_cast<std::int64_t>(array.shape(i)))
        if (array.shape(i) != 1 && array.stride(i) != stride) return array.size() == 0;
    return true;
}

ColumnValue check(const Column& column, std::size_t count, nb::handle object, KeptArrays& kept) {
    nb::ndarray<nb::ro> array;
    if (!nb::try_cast(object, array, false)) refuse(column.name, "must be a NumPy array");
    if (array.device_type() != nb::device::cpu::value) refuse(column.name, "must lie in the memory of the CPU");
    const TypeName& type = type_name(column.type);
    if (array.dtype() != type.dtype) refuse(column.name, std::string("must be of dtype ") + type.name);
    if (!has_shape(array, column, count)) refuse_shape(column, count, array);
    if (!is_contiguous(array)) refuse(column.name, "must be C-contiguous: pass numpy.ascontiguousarray(array)");
    ColumnValue value{array.data(), 1};
    for (std::size_t i = column.per_sample ? 1 : 0; i < array.ndim(); ++i) value.row_size *= array.shape(i);
    // An empty array may have a null pointer, which would mean that the array is missing.
    static constexpr std::uint64_t empty = 0;
    if (value.data == nullptr) value.data = &empty;
    kept.push_back(std::move(array));
    return value;
}

void check_names(const nb::dict& arrays, std::span<const Column> columns) {
    for (const nb::handle key : arrays.keys()) {
        const auto name = nb::cast<std::string>(key);
        if (std::none_of(columns.begin(), columns.end(), [&](const Column& column) { return name == column.name; }))
            refuse(name.c_str(), "is unknown: pass the columns of the table only");
    }
}

nb::tuple shape_of(const Column& column) {
    nb::list shape;
    for (const std::size_t size : column.row_shape())
        shape.append(size == kAnySize ? nb::none() : nb::object(nb::int_(size)));
    return nb::tuple(shape);
}

}  // namespace

std::vector<ColumnValue> check_columns(const nb::dict& arrays, std::span<const Column> columns, std::size_t count,
                                       KeptArrays& kept) {
    std::vector<ColumnValue> values(columns.size());
    std::size_t known = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const nb::str name(columns[i].name);
        PyObject* array = PyDict_GetItemWithError(arrays.ptr(), name.ptr());
        if (array != nullptr) {
            values[i] = check(columns[i], count, array, kept);
            ++known;
        } else if (!columns[i].optional) {
            refuse(columns[i].name, "is missing");
        }
    }
    if (known != arrays.size()) check_names(arrays, columns);
    return values;
}

nb::tuple table_of(const nb::module_& m, std::span<const Column> columns) {
    const nb::object make = m.attr("Column");
    nb::list table;
    for (const Column& column : columns)
        table.append(make(column.name, type_name(column.type).name, column.per_sample, column.optional,
                          shape_of(column)));
    return nb::tuple(table);
}

// Column is a Python class, because nanobind reports its own objects as leaked if they live when the interpreter ends.
void bind_columns(nb::module_& m) {
    const nb::object make = nb::module_::import_("collections").attr("namedtuple");
    m.attr("Column") = make("Column", nb::make_tuple("name", "dtype", "per_sample", "optional", "row_shape"),
                            "module"_a = m.attr("__name__"));
}

}  // namespace stoker
