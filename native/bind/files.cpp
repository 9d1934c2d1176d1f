#include <sys/stat.h>

#include <memory>
#include <string>

#include "bind/bind.h"
#include "decode/checks/file_probe.h"
#include "records/file_listing.h"

namespace stoker {
namespace {

using Numbers = Vector<std::int64_t>;
using Text = Vector<std::uint8_t>;

// Paths of files: their names one after the other in `text`, and the start of each name in `starts`.
struct Paths {
    const std::string& root;
    const Numbers& starts;
    const Text& text;

    std::string at(std::size_t i) const {
        const std::int64_t begin = starts.data()[i], end = starts.data()[i + 1];
        if (begin < 0 || begin > end || end > static_cast<std::int64_t>(text.size())) return root;
        const std::string name(reinterpret_cast<const char*>(text.data()) + begin, static_cast<std::size_t>(end - begin));
        return !name.empty() && name[0] == '/' ? name : root + '/' + name;
    }
};

nb::ndarray<nb::numpy, std::int32_t> probe_jpeg_files(const std::string& root, const Numbers& starts, const Text& text,
                                                      const Numbers& sizes) {
    require(starts.size() == sizes.size() + 1, "starts must have one more number than sizes");
    const std::size_t count = sizes.size();
    auto rows = std::make_unique<std::int32_t[]>(4 * count);
    without_gil([&] {
        const Paths paths{root, starts, text};
        for (std::size_t i = 0; i < count; ++i) {
            Header header;
            std::int32_t* row = rows.get() + 4 * i;
            const bool known = probe_jpeg_file(paths.at(i), sizes.data()[i], header);
            row[0] = static_cast<std::int32_t>(known ? header.codec : Codec::other);
            row[1] = header.height;
            row[2] = header.width;
            row[3] = header.orientation;
        }
    });
    return array_of(std::move(rows), {count, 4});
}

std::int64_t first_changed(const std::string& root, const Numbers& starts, const Text& text, const Numbers& sizes,
                           const Numbers& modified, std::size_t step) {
    require(starts.size() == sizes.size() + 1 && modified.size() == sizes.size() && step > 0,
            "starts must have one more number than sizes and modified");
    const nb::gil_scoped_release release;
    const Paths paths{root, starts, text};
    for (std::size_t i = 0; i < sizes.size(); i += step) {
        struct stat info{};
        const bool same = ::stat(paths.at(i).c_str(), &info) == 0 &&
                          (sizes.data()[i] < 0 || info.st_size == sizes.data()[i]) &&
                          modified_ns(info) == modified.data()[i];
        if (!same) return static_cast<std::int64_t>(i);
    }
    return -1;
}

}  // namespace

void bind_files(nb::module_& m) {
    m.def("probe_jpeg_files", probe_jpeg_files, "root"_a, "starts"_a, "text"_a, "sizes"_a);
    m.def("first_changed", first_changed, "root"_a, "starts"_a, "text"_a, "sizes"_a, "modified"_a, "step"_a);
}

}  // namespace stoker
