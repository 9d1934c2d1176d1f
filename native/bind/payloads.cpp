#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "bind/bind.h"
#include "bind/columns.h"
#include "decode/payload_check.h"
#include "decode/size_check.h"
#include "restarts/splice.h"

namespace stoker {
namespace {

using View = nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>;

// The memory that arrays of payloads keep alive.
struct Owner {
    std::shared_ptr<const DataFiles> files;
    std::vector<std::vector<std::uint8_t>> copies;  // payloads that are not mapped
};

CheckResult read_and_check(Owner& owner, const SampleColumns& samples, std::size_t i, const CheckOptions& options,
                       Payload& payload) {
    try {
        CheckResult read = read_payload(*owner.files, samples, i, owner.copies[i], payload);
        if (read.status != Status::ok) return read;
    } catch (const std::exception& error) {
        return {Status::read_error, error.what()};
    }
    return check_payload(payload, samples, i, options);
}

using Crops = Rows<std::int32_t, 4>;
using Origins = nb::ndarray<nb::numpy, std::int32_t, nb::shape<-1, 2>>;

// Replaces the payload by the part of it that shows a crop, where its restart markers allow it, and checks that part.
// Returns false otherwise: the whole payload is then still to be checked.
bool splice_payload(Owner& owner, const SampleColumns& samples, std::size_t i, const CheckOptions& options,
                    const std::int32_t* crop, std::int32_t* origin, CheckResult& result, Payload& payload) {
    if (samples.orientation[i] != 1) return false;
    try {
        result = read_payload(*owner.files, samples, i, owner.copies[i], payload);
        if (result.status != Status::ok) return true;
    } catch (const std::exception& error) {
        result = {Status::read_error, error.what()};
        return true;
    }
    const Rectangle rectangle{crop[0], crop[1], crop[2], crop[3]};
    std::optional<Spliced> spliced = splice(payload, bands_of(samples, i), rectangle, options.verify, result);
    if (!spliced) return result.status != Status::ok;
    const auto [height, width] = spliced->whole;
    result = check_size(height, width, samples.height[i], samples.width[i], options.max_pixels);
    owner.copies[i] = std::move(spliced->jpeg);
    payload = {owner.copies[i].data(), owner.copies[i].size()};
    origin[0] = spliced->top;
    origin[1] = spliced->left;
    return true;
}

nb::tuple payloads(const Shards& shards, const nb::dict& columns, std::size_t count, std::int64_t max_pixels,
                   bool verify, const std::optional<Crops>& crops) {
    require(!crops || crops->shape(0) == count, "crops must have a row for each sample");
    KeptArrays kept;
    const auto samples = unpack<SampleColumns>(columns, kSampleColumns, count, kept);
    auto owner = std::make_unique<Owner>();
    owner->files = shards.files();
    owner->copies.resize(count);
    std::vector<Payload> found(count);
    std::vector<CheckResult> results(count);
    auto origins = std::make_unique<std::int32_t[]>(2 * count);
    {
        const nb::gil_scoped_release release;
        const CheckOptions options{max_pixels, verify};
        for (std::size_t i = 0; i < count; ++i) {
            const bool done = crops && splice_payload(*owner, samples, i, options, crops->data() + 4 * i,
                                                      origins.get() + 2 * i, results[i], found[i]);
            if (!done) results[i] = read_and_check(*owner, samples, i, options, found[i]);
        }
    }
    const nb::capsule keeper(owner.release(), [](void* p) noexcept { delete static_cast<Owner*>(p); });
    nb::list arrays;
    nb::dict bad;
    for (std::size_t i = 0; i < count; ++i) {
        arrays.append(View(found[i].data, {found[i].size}, keeper));
        if (results[i].status != Status::ok)
            bad[nb::int_(i)] = nb::make_tuple(static_cast<int>(results[i].status), results[i].reason);
    }
    const nb::capsule numbers(origins.get(), [](void* p) noexcept { delete[] static_cast<std::int32_t*>(p); });
    return nb::make_tuple(arrays, bad, Origins(origins.release(), {count, 2}, numbers));
}

}  // namespace

void bind_payloads(nb::module_& m) {
    m.def("payloads", payloads, "shards"_a, "samples"_a, "count"_a, "max_pixels"_a, "verify"_a,
          "crops"_a.none() = nb::none());
}

}  // namespace stoker
