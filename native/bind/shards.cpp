#include <memory>

#include "bind/bind.h"
#include "records/shards.h"

namespace stoker {
namespace {

using View = nb::ndarray<nb::memview, const std::uint8_t, nb::ndim<1>>;

void make(Shards* self, const std::vector<std::string>& paths, const std::vector<std::int64_t>& sizes, bool mapped,
          bool listing) {
    require(paths.size() == sizes.size(), "paths and sizes must have the same length");
    const nb::gil_scoped_release release;
    new (self) Shards(paths, sizes, mapped, listing);
}

View view(const Shards& shards, std::int64_t shard, std::int64_t offset, std::int64_t length) {
    struct Owner {
        std::shared_ptr<const DataFile> file;
        std::vector<std::uint8_t> storage;
    };
    auto owner = std::make_unique<Owner>();
    owner->file = shards.file(shard, offset, length);
    const Payload payload = without_gil([&] { return owner->file->read(offset, length, owner->storage); });
    return View(payload.data, {payload.size}, capsule_of(std::move(owner)));
}

constexpr std::int64_t kGap = 128 << 10;  // reading the bytes between costs less than another request

void will_need(const Shards& shards, const Vector<std::int32_t>& shard, const Vector<std::int64_t>& offset,
               const Vector<std::int64_t>& length, std::int64_t gap) {
    require(offset.size() == shard.size() && length.size() == shard.size(),
            "shard, offset and length must have the same length");
    std::vector<Range> ranges;
    ranges.reserve(shard.size());
    for (std::size_t i = 0; i < shard.size(); ++i)
        ranges.push_back({shard.data()[i], offset.data()[i], length.data()[i]});
    const nb::gil_scoped_release release;
    shards.will_need(std::move(ranges), gap);
}

}  // namespace

void bind_shards(nb::module_& m) {
    nb::class_<Shards>(m, "Shards")
        .def("__init__", make, "paths"_a, "sizes"_a, "mapped"_a = true, "listing"_a = true)
        .def("view", view, "shard"_a, "offset"_a, "length"_a)
        .def("has_checksums", [](const Shards& shards, std::int64_t shard) {
            return shards.file(shard, 0, 0)->has_checksums();
        }, "shard"_a)
        .def("will_need", will_need, "shard"_a, "offset"_a, "length"_a, "gap"_a = kGap)
        .def("close", &Shards::close);
}

}  // namespace stoker
