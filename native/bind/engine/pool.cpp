#include "engine/pool.h"

#include <memory>

#include "bind/bind.h"
#include "bind/columns.h"
#include "bind/engine/job.h"
#include "bind/steps.h"

namespace stoker {
namespace {

using Out = nb::ndarray<nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using StatusColumn = Array<std::uint8_t, nb::ndim<1>>;

constexpr int kMaxThreads = 1024;

DType dtype_of(const Out& out) {
    if (out.dtype() == nb::dtype<float>()) return DType::float32;
    if (out.dtype() == nb::dtype<std::uint8_t>()) return DType::uint8;
    if (out.dtype() == nb::dtype<std::uint16_t>()) return DType::bfloat16;
    const nb::dlpack::dtype half{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    require(out.dtype() == half, "out must be uint8, float16, float32, or uint16 for bfloat16");
    return DType::float16;
}

void set_output(BatchWork& work, const Out& out, const StatusColumn& status, int layout, KeptArrays& kept) {
    require(layout >= 0 && layout <= 2, "layout must be 0 (NCHW), 1 (NHWC) or 2 (NHWC with four channels)");
    BatchOptions& options = work.options;
    options.layout = static_cast<Layout>(layout);
    options.dtype = dtype_of(out);
    const bool planar = options.layout == Layout::nchw;
    require(out.shape(planar ? 1 : 3) == channels_of(options.layout), "out must have the shape that layout asks for");
    const std::size_t height = out.shape(planar ? 2 : 1), width = out.shape(planar ? 3 : 2);
    require(height >= 1 && width >= 1 && height <= kMaxSide && width <= kMaxSide,
            "out must have images of 1 to 32768 pixels a side");
    options.height = static_cast<int>(height);
    options.width = static_cast<int>(width);
    work.count = out.shape(0);
    require(status.shape(0) == work.count, "status must have as many rows as out has images");
    work.out = out.data();
    work.status = status.data();
    kept.emplace_back(out);
    kept.emplace_back(status);
}

void set_decoded(BatchWork& work, const nb::dict& decoded, KeptArrays& kept) {
    work.decoded.resize(work.count);
    for (const auto& [key, value] : decoded) {
        const auto i = nb::cast<std::size_t>(key);
        require(i < work.count, "the keys of decoded must be positions in the batch");
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

Job submit(Pool& pool, const Shards& shards, const nb::dict& samples, const nb::dict& params, const Out& out,
           const StatusColumn& status, int layout, std::int64_t max_pixels, bool verify, const nb::dict& decoded,
           BoundSteps* steps, const std::vector<nb::dict>& erase, bool decode_only, bool exact) {
    BatchWork work;
    KeptArrays kept;
    set_output(work, out, status, layout, kept);
    work.options.max_pixels = max_pixels;
    work.options.verify = verify;
    work.options.decode_only = decode_only;
    work.options.exact = exact;
    work.files = shards.files();
    work.samples = unpack<SampleColumns>(samples, kSampleColumns, work.count, kept);
    work.parameters = unpack<ParameterColumns>(params, kParameterColumns, work.count, kept);
    for (const nb::dict& columns : erase)
        work.erase.push_back(unpack<EraseColumns>(columns, kEraseColumns, work.count, kept));
    set_decoded(work, decoded, kept);
    work.check();
    if (steps != nullptr) {
        require(steps->count() == work.count, "steps must be for the same number of samples as the batch");
        work.steps = steps->take(kept);
    }
    auto batch = std::make_shared<Batch>(std::move(work));
    pool.submit(batch);
    return Job(std::move(batch), std::move(kept));
}

void make(Pool* self, int threads) {
    require(threads >= 1 && threads <= kMaxThreads, "num_threads must be between 1 and 1024");
    new (self) Pool(threads);
}

}  // namespace

void bind_pool(nb::module_& m) {
    m.attr("SAMPLE_COLUMNS") = table_of(m, kSampleColumns);
    m.attr("PARAMETER_COLUMNS") = table_of(m, kParameterColumns);
    m.attr("ERASE_COLUMNS") = table_of(m, kEraseColumns);
    nb::class_<Job>(m, "Job").def("wait", &Job::wait).def("done", &Job::done).def("reason", &Job::reason, "i"_a);
    nb::class_<Pool>(m, "Pool")
        .def("__init__", make, "num_threads"_a)
        .def_prop_ro("num_threads", &Pool::threads)
        .def("submit", submit, "shards"_a, "samples"_a, "params"_a, nb::kw_only(), "out"_a.noconvert(),
             "status"_a.noconvert(), "layout"_a, "max_pixels"_a, "verify"_a, "decoded"_a = nb::dict(),
             "steps"_a.none() = nb::none(), "erase"_a = nb::make_tuple(), "decode_only"_a = false, "exact"_a = false)
        .def("close", &Pool::close, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace stoker
