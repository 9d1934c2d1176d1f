#include <exception>
#include <memory>

#include "bind/bind.h"
#include "bind/columns.h"
#include "decode/payload_check.h"

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

nb::tuple payloads(const Shards& shards, const nb::dict& columns, std::size_t count, std::int64_t max_pixels,
                   bool verify) {
    KeptArrays kept;
    const auto samples = unpack<SampleColumns>(columns, kSampleColumns, count, kept);
    auto owner = std::make_unique<Owner>();
    owner->files = shards.files();
    owner->copies.resize(count);
    std::vector<Payload> found(count);
    std::vector<CheckResult> results(count);
    {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < count; ++i)
            results[i] = read_and_check(*owner, samples, i, {max_pixels, verify}, found[i]);
    }
    const nb::capsule keeper(owner.release(), [](void* p) noexcept { delete static_cast<Owner*>(p); });
    nb::list arrays;
    nb::dict bad;
    for (std::size_t i = 0; i < count; ++i) {
        arrays.append(View(found[i].data, {found[i].size}, keeper));
        if (results[i].status != Status::ok)
            bad[nb::int_(i)] = nb::make_tuple(static_cast<int>(results[i].status), results[i].reason);
    }
    return nb::make_tuple(arrays, bad);
}

}  // namespace

void bind_payloads(nb::module_& m) {
    m.def("payloads", payloads, "shards"_a, "samples"_a, "count"_a, "max_pixels"_a, "verify"_a);
}

}  // namespace stoker
