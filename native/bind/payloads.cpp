#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "bind/bind.h"
#include "bind/columns.h"
#include "decode/checks/payload_check.h"
#include "decode/checks/size_check.h"
#include "restarts/splice.h"

namespace stoker {
namespace {

using View = nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>;
using Bytes = Array<const std::uint8_t>;

constexpr std::size_t kMostDimensions = 3;

// The payloads of a batch, which lie in the mapped files or in copies.
struct PayloadMemory {
    std::shared_ptr<const DataFiles> files;
    std::vector<std::vector<std::uint8_t>> copies;  // payloads that are not mapped
    std::vector<Payload> payloads;

    // Whether `data` lies in payload `i`. A batch of several views repeats the payloads, view by view.
    bool contains(std::size_t i, const std::uint8_t* data, std::size_t size) const {
        if (payloads.empty()) return false;
        const Payload& payload = payloads[i % payloads.size()];
        return data >= payload.data && size <= payload.size && data - payload.data <= std::ptrdiff_t(payload.size - size);
    }
};

using Owner = std::shared_ptr<const PayloadMemory>;

CheckResult read(PayloadMemory& memory, const SampleColumns& samples, std::size_t i) {
    try {
        return read_payload(*memory.files, samples, i, memory.copies[i], memory.payloads[i]);
    } catch (const std::exception& error) {
        return {Status::read_error, error.what()};
    }
}

using Crops = Rows<std::int32_t, 4>;

// Replaces the payload by the part of it that shows a crop, where its restart markers allow it, and checks that part.
// Otherwise it returns false, and the whole payload must be checked.
bool splice_payload(PayloadMemory& memory, const SampleColumns& samples, std::size_t i, const CheckOptions& options,
                    const std::int32_t* crop, std::int32_t* origin, CheckResult& result) {
    Payload& payload = memory.payloads[i];
    if (samples.orientation[i] != 1) return false;
    const Rectangle rectangle{crop[0], crop[1], crop[2], crop[3]};
    std::optional<Spliced> spliced = splice(payload, bands_of(samples, i), rectangle, options.verify, result);
    if (!spliced) return !result.ok();
    const auto [height, width] = spliced->whole;
    result = check_size(height, width, samples.height[i], samples.width[i], options.max_pixels);
    memory.copies[i] = std::move(spliced->jpeg);
    payload = {memory.copies[i].data(), memory.copies[i].size()};
    origin[0] = spliced->top;
    origin[1] = spliced->left;
    return true;
}

nb::tuple payloads(const Shards& shards, const nb::dict& columns, std::size_t count, std::int64_t max_pixels,
                   bool verify, const std::optional<Crops>& crops) {
    require(!crops || crops->shape(0) == count, "crops must have a row for each sample");
    KeptArrays kept;
    const auto samples = unpack<SampleColumns>(columns, kSampleColumns, count, kept);
    const auto memory = std::make_shared<PayloadMemory>();
    memory->files = shards.files();
    memory->copies.resize(count);
    memory->payloads.resize(count);
    std::vector<CheckResult> results(count);
    auto origins = std::make_unique<std::int32_t[]>(2 * count);
    without_gil([&] {
        const CheckOptions options{max_pixels, verify};
        for (std::size_t i = 0; i < count; ++i) {
            results[i] = read(*memory, samples, i);
            if (!results[i].ok()) continue;
            const bool spliced = crops && splice_payload(*memory, samples, i, options, crops->data() + 4 * i,
                                                         origins.get() + 2 * i, results[i]);
            if (!spliced) results[i] = check_payload(memory->payloads[i], samples, i, options);
        }
    });
    const nb::capsule keeper = capsule_of(std::make_unique<Owner>(memory));
    nb::list arrays;
    nb::dict bad;
    for (std::size_t i = 0; i < count; ++i) {
        arrays.append(View(memory->payloads[i].data, {memory->payloads[i].size}, keeper));
        if (!results[i].ok())
            bad[nb::int_(i)] = nb::make_tuple(static_cast<int>(results[i].status), results[i].reason);
    }
    return nb::make_tuple(arrays, bad, array_of(std::move(origins), {count, 2}), memory);
}

// DLPack 0.8, dlpack.h: DLManagedTensor, and the names of its capsule.
struct ManagedTensor {
    nb::dlpack::dltensor tensor;
    void* context;
    void (*deleter)(ManagedTensor*);
};
constexpr const char* kFresh = "dltensor";

// A tensor, and the owner or the copy of its bytes. Any thread may free it without the interpreter.
struct Shared {
    ManagedTensor managed{};
    std::array<std::int64_t, kMostDimensions> shape{};
    Owner owner;
    std::vector<std::uint8_t> copy;
};

void free_shared(ManagedTensor* managed) { delete static_cast<Shared*>(managed->context); }

void free_capsule(PyObject* capsule) {
    // A receiver renames the capsule, and frees the tensor itself.
    if (!PyCapsule_IsValid(capsule, kFresh)) return;
    auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
    managed->deleter(managed);
}

nb::object capsule(const Owner& memory, const Bytes& array, std::size_t i) {
    require(array.ndim() >= 1 && array.ndim() <= kMostDimensions, "an array must have one to three dimensions");
    auto shared = std::make_unique<Shared>();
    auto* data = const_cast<std::uint8_t*>(array.data());  // receivers of payloads only read
    if (memory->contains(i, data, array.size())) {
        shared->owner = memory;
    } else {
        shared->copy.assign(data, data + array.size());
        data = shared->copy.data();
    }
    for (std::size_t axis = 0; axis < array.ndim(); ++axis)
        shared->shape[axis] = static_cast<std::int64_t>(array.shape(axis));
    nb::dlpack::dltensor& tensor = shared->managed.tensor;
    tensor.data = data;
    tensor.device = {nb::device::cpu::value, 0};
    tensor.ndim = static_cast<std::int32_t>(array.ndim());
    tensor.dtype = nb::dtype<std::uint8_t>();
    tensor.shape = shared->shape.data();
    shared->managed.context = shared.get();
    shared->managed.deleter = free_shared;
    PyObject* object = PyCapsule_New(&shared->managed, kFresh, free_capsule);
    if (object == nullptr) throw nb::python_error();
    shared.release();  // NOLINT(bugprone-unused-return-value): the capsule owns it
    return nb::steal(object);
}

nb::list capsules(const Owner& memory, const std::vector<Bytes>& arrays) {
    nb::list objects;
    for (std::size_t i = 0; i < arrays.size(); ++i) objects.append(capsule(memory, arrays[i], i));
    return objects;
}

}  // namespace

void bind_payloads(nb::module_& m) {
    nb::class_<PayloadMemory>(m, "PayloadMemory")
        .def(nb::new_([] { return std::make_shared<PayloadMemory>(); }))
        .def("capsules", [](std::shared_ptr<PayloadMemory> memory, const std::vector<Bytes>& arrays) {
            return capsules(memory, arrays);
        }, "arrays"_a);
    m.def("payloads", payloads, "shards"_a, "samples"_a, "count"_a, "max_pixels"_a, "verify"_a,
          "crops"_a.none() = nb::none());
}

}  // namespace stoker
