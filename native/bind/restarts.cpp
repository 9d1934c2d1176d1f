#include <array>
#include <optional>

#include <nanobind/stl/array.h>

#include "bind/bind.h"
#include "restarts/bands.h"
#include "restarts/splice.h"
#include "transcode/restart_marks.h"

namespace stoker {
namespace {

std::tuple<nb::object, std::string, std::string> mark_restarts_in(nb::handle data) {
    const Buffer buffer(data);
    const RestartMarked marked = without_gil([&] { return mark_restarts({buffer.data(), buffer.size()}); });
    if (marked.payload.empty()) return {nb::none(), marked.reason, marked.detail};
    return {nb::bytes(marked.payload.data(), marked.payload.size()), "", ""};
}

nb::ndarray<nb::numpy, std::uint32_t> make_bands_of(nb::handle data) {
    const Buffer buffer(data);
    return array_of(without_gil([&] { return make_bands({buffer.data(), buffer.size()}); }));
}

bool bands_match(nb::handle data, const Vector<std::uint32_t>& numbers) {
    const Buffer buffer(data);
    const Payload payload{buffer.data(), buffer.size()};
    const Bands bands({numbers.data(), numbers.shape(0)});
    const nb::gil_scoped_release release;
    return bands.fit(payload.size) && bands.headers_match(payload) && bands.match(payload, 0, bands.count());
}

std::optional<std::tuple<nb::bytes, int, int, std::size_t>> splice_of(nb::handle data,
                                                                      const Vector<std::uint32_t>& numbers,
                                                                      const std::array<int, 4>& crop, bool verify) {
    const Buffer buffer(data);
    const Rectangle rectangle{crop[0], crop[1], crop[2], crop[3]};
    CheckResult check;
    const Bands bands({numbers.data(), numbers.shape(0)});
    const std::optional<Spliced> spliced =
        without_gil([&] { return splice({buffer.data(), buffer.size()}, bands, rectangle, verify, check); });
    if (!check.ok()) throw nb::value_error(check.reason.c_str());
    if (!spliced) return {};
    return std::tuple{nb::bytes(spliced->jpeg.data(), spliced->jpeg.size()), spliced->top, spliced->left,
                      spliced->bytes_looked_at};
}

}  // namespace

void bind_restarts(nb::module_& m) {
    m.def("mark_restarts", mark_restarts_in, "data"_a);
    m.def("make_bands", make_bands_of, "data"_a);
    m.def("bands_match", bands_match, "data"_a, "bands"_a);
    m.def("splice", splice_of, "data"_a, "bands"_a, "crop"_a, "verify"_a = true);
}

}  // namespace stoker
