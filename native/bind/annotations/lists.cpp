#include <cstring>
#include <memory>

#include "bind/bind.h"

namespace stoker {
namespace {

using Starts = Vector<std::int64_t>;
using Values = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bounds = std::vector<std::pair<std::int64_t, std::int64_t>>;  // begin and end of each list

Bounds bounds_of(const Starts& starts, std::size_t values, const Vector<std::int64_t>& rows) {
    Bounds bounds(rows.shape(0));
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        const std::int64_t row = rows.data()[i];
        if (row < 0 || row >= static_cast<std::int64_t>(starts.shape(0)) - 1)
            throw nb::index_error("rows must hold indices of lists of the column");
        const std::int64_t start = starts.data()[row], stop = starts.data()[row + 1];
        if (start < 0 || stop < start || stop > static_cast<std::int64_t>(values))
            throw nb::value_error("starts must be indices of the values, in ascending order");
        bounds[i] = {start, stop};
    }
    return bounds;
}

nb::object starts_of(const Bounds& bounds) {
    std::vector<std::int64_t> starts(1);
    for (const auto& [start, stop] : bounds) starts.push_back(starts.back() + stop - start);
    return nb::cast(array_of(std::move(starts)));
}

nb::object values_of(const Bounds& bounds, const Values& values) {
    const std::size_t size = values.itemsize();
    std::size_t total = 0;
    for (const auto& [start, stop] : bounds) total += static_cast<std::size_t>(stop - start);
    auto bytes = std::make_unique_for_overwrite<std::uint8_t[]>(total * size);
    const auto* from = static_cast<const std::uint8_t*>(values.data());
    std::uint8_t* to = bytes.get();
    for (const auto& [start, stop] : bounds) {
        const std::size_t length = static_cast<std::size_t>(stop - start) * size;
        if (length != 0) std::memcpy(to, from + static_cast<std::size_t>(start) * size, length);
        to += length;
    }
    void* data = bytes.get();
    return nb::cast(nb::ndarray<nb::numpy>(data, 1, &total, capsule_of(std::move(bytes)), nullptr, values.dtype()));
}

nb::list take_lists(const std::vector<std::pair<Starts, Values>>& columns, const Vector<std::int64_t>& rows) {
    nb::list taken;
    std::vector<std::pair<Bounds, nb::object>> known;  // bounds, and the starts that were made of them
    for (const auto& [starts, values] : columns) {
        const Bounds bounds = bounds_of(starts, values.shape(0), rows);
        std::size_t alike = 0;
        while (alike < known.size() && known[alike].first != bounds) ++alike;
        if (alike == known.size()) known.emplace_back(bounds, starts_of(bounds));
        taken.append(nb::make_tuple(known[alike].second, values_of(bounds, values)));
    }
    return taken;
}

}  // namespace

void bind_lists(nb::module_& m) { m.def("take_lists", take_lists, "columns"_a, "rows"_a); }

}  // namespace stoker
