#include "engine/pool.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "bind/bind.h"
#include "bind/columns.h"
#include "bind/engine/image_array.h"
#include "bind/engine/job.h"
#include "bind/steps.h"

namespace stoker {
namespace {

using StatusColumn = Array<std::uint8_t, nb::ndim<1>>;

constexpr int kMaxThreads = 1024;

void set_decoded(BatchWork& work, const nb::dict& decoded, KeptArrays& kept) {
    work.decoded.resize(work.count);
    for (const auto& [key, value] : decoded) {
        const auto i = nb::cast<std::size_t>(key);
        require(i < work.count, "the keys of decoded must be indices in the batch");
        RgbArray pixels;
        // Without conversion: a converted copy would be freed before the batch reads it.
        if (!nb::try_cast(nb::handle(value), pixels, false))
            throw nb::value_error(("decoded[" + std::to_string(i) +
                                   "] must be a C-contiguous array of dtype uint8 and shape (H, W, 3)").c_str());
        work.decoded[i] = {pixels.data(), static_cast<std::int64_t>(pixels.shape(0)),
                           static_cast<std::int64_t>(pixels.shape(1))};
        kept.emplace_back(pixels);
    }
}

void add_images(BatchWork& work, BoundImageArray& bound, KeptArrays& kept) {
    ImageArray images = bound.take(kept);
    require(images.count > 0 ? work.count > 0 && images.count % work.count == 0 : work.count == 0,
            "out must have as many images as there are samples, or a multiple of them");
    images.check(work.samples, work.count);
    work.images.push_back(std::move(images));
}

Job submit(Pool& pool, const Shards& shards, const nb::dict& samples, const nb::dict& params, const Out& out,
           const StatusColumn& status, int layout, std::int64_t max_pixels, bool verify, const nb::dict& decoded,
           BoundSteps* steps, const std::vector<nb::dict>& erase, bool decode_only, bool exact,
           const std::vector<BoundImageArray*>& others, bool grey,
           const nb::dict& composition, std::shared_ptr<const PythonSteps> last_steps, std::size_t share, bool start) {
    BatchWork work;
    KeptArrays kept;
    work.count = status.shape(0);
    work.status = status.data();
    kept.emplace_back(status);
    work.options = {max_pixels, verify, decode_only, grey};
    work.files = shards.files();
    work.kept = pool.kept();
    work.samples = unpack<SampleColumns>(samples, kSampleColumns, work.count, kept);
    set_decoded(work, decoded, kept);
    BoundImageArray images(params, out, layout, steps, erase, exact, composition, std::move(last_steps));
    work.composition = images.composition();
    require(work.composition.count() == 0 || (others.empty() && !decode_only),
            "images of several samples cannot be made beside others, or decoded only");
    add_images(work, images, kept);
    const ParameterColumns& parameters = work.images.front().parameters;
    require(work.composition.count() == 0 || (parameters.tile == nullptr && parameters.image_size == nullptr),
            "images of several samples have no border, and one size");
    for (BoundImageArray* other : others) {
        require(other != nullptr, "others must be image arrays");
        add_images(work, *other, kept);
    }
    work.share = share;
    const bool calls_python = std::ranges::any_of(work.images, [](const auto& one) { return one.last_steps != nullptr; });
    require(share >= 1, "share must be at least 1");
    require(!start || !calls_python, "a batch with last_steps is executed by Job.work(), with start=False");
    auto batch = std::make_shared<Batch>(std::move(work));
    if (start) pool.submit(batch);
    return Job(std::move(batch), std::move(kept));
}

void make(Pool* self, int threads, std::size_t kept) {
    require(threads >= 1 && threads <= kMaxThreads, "num_threads must be between 1 and 1024");
    new (self) Pool(threads, kept);
}

}  // namespace

void bind_pool(nb::module_& m) {
    m.attr("SAMPLE_COLUMNS") = table_of(m, kSampleColumns);
    m.attr("PARAMETER_COLUMNS") = table_of(m, kParameterColumns);
    m.attr("ERASE_COLUMNS") = table_of(m, kEraseColumns);
    m.attr("COMPOSITION_COLUMNS") = table_of(m, kCompositionColumns);
    nb::class_<Job>(m, "Job")
        .def("work", &Job::work)
        .def("cancel", &Job::cancel)
        .def("wait", &Job::wait)
        .def("done", &Job::done)
        .def("reason", &Job::reason, "i"_a);
    nb::class_<PythonSteps>(m, "PythonSteps")
        .def(nb::init<const Vector<bool>&, nb::callable, BufferPool&, bool>(), "where"_a.noconvert(), "function"_a,
             "memory"_a, nb::kw_only(), "takes_several"_a = false);
    nb::class_<BoundImageArray>(m, "ImageArray")
        .def(nb::init<const nb::dict&, const Out&, int, BoundSteps*, const std::vector<nb::dict>&, bool, const nb::dict&,
                      std::shared_ptr<const PythonSteps>>(),
             "params"_a, nb::kw_only(), "out"_a.noconvert(), "layout"_a, "steps"_a.none() = nb::none(),
             "erase"_a = nb::make_tuple(), "exact"_a = false, "composition"_a = nb::dict(),
             "last_steps"_a.none() = nb::none())
        .def("finish", &BoundImageArray::finish, "pixels"_a.noconvert());
    nb::class_<Pool>(m, "Pool")
        .def("__init__", make, "num_threads"_a, "kept"_a = 0)
        .def_prop_ro("num_threads", &Pool::threads)
        .def("submit", submit, "shards"_a, "samples"_a, "params"_a, nb::kw_only(), "out"_a.noconvert(),
             "status"_a.noconvert(), "layout"_a, "max_pixels"_a, "verify"_a, "decoded"_a = nb::dict(),
             "steps"_a.none() = nb::none(), "erase"_a = nb::make_tuple(), "decode_only"_a = false, "exact"_a = false,
             "others"_a = nb::make_tuple(), "grey"_a = false, "composition"_a = nb::dict(),
             "last_steps"_a.none() = nb::none(), "share"_a = 1, "start"_a = true)
        .def("close", &Pool::close, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace stoker
