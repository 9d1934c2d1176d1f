#include <memory>

#include <unistd.h>

#include "bind/bind.h"
#include "bind/steps.h"
#include "engine/pool.h"

namespace stoker {
namespace {

template <class T, int... shape>
using Rows = Array<const T, nb::shape<-1, shape...>>;
using Colors = Array<const float, nb::shape<-1, 3, 4>>;
using Fill = Array<const std::uint8_t, nb::shape<3>>;
using Out = nb::ndarray<nb::ndim<4>, nb::c_contig, nb::device::cpu>;
constexpr int kMaxSide = 1 << 15;
using StatusColumn = Array<std::uint8_t, nb::ndim<1>>;

// A batch under way, and the arrays that it reads and writes.
class Job {
  public:
    Job(std::shared_ptr<Batch> batch, nb::object arrays)
        : batch_(std::move(batch)), arrays_(std::move(arrays)), process_(::getpid()) {}
    Job(Job&&) = default;
    ~Job() {
        // No worker takes the GIL, so waiting with it held cannot lock up. In a forked child there is
        // nobody to wait for.
        if (batch_ == nullptr || ::getpid() != process_) return;
        batch_->cancel();
        batch_->wait();
    }

    void wait() {
        if (::getpid() != process_)
            throw std::runtime_error("this batch was started in the parent process: make the loader in this one");
        const nb::gil_scoped_release release;
        batch_->wait();
    }
    bool done() { return batch_->done(); }
    std::string reason(std::size_t i) { return batch_->reason(i); }

  private:
    std::shared_ptr<Batch> batch_;
    nb::object arrays_;
    pid_t process_;
};

void require(bool condition, const char* message) {
    if (!condition) throw nb::value_error(message);
}

DType dtype_of(const Out& out) {
    if (out.dtype() == nb::dtype<float>()) return DType::float32;
    if (out.dtype() == nb::dtype<std::uint8_t>()) return DType::uint8;
    if (out.dtype() == nb::dtype<std::uint16_t>()) return DType::bfloat16;
    const nb::dlpack::dtype half{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    require(out.dtype() == half, "out must be uint8, float16, float32, or uint16 for bfloat16");
    return DType::float16;
}

void set_form(Batch& batch, const Out& out, int layout) {
    require(layout >= 0 && layout <= 2, "layout must be 0 (NCHW), 1 (NHWC) or 2 (NHWC with four channels)");
    BatchOptions& options = batch.options;
    options.layout = static_cast<Layout>(layout);
    options.dtype = dtype_of(out);
    const bool planar = options.layout == Layout::nchw;
    require(out.shape(0) == batch.count && out.shape(planar ? 1 : 3) == channels_of(options.layout),
            "out must have the shape that layout asks for, one image a sample");
    options.height = static_cast<int>(out.shape(planar ? 2 : 1));
    options.width = static_cast<int>(out.shape(planar ? 3 : 2));
    require(options.height >= 1 && options.width >= 1 && options.height <= kMaxSide && options.width <= kMaxSide,
            "out must have images of 1 to 32768 pixels a side");
    batch.out = out.data();
}

void set_decoded(Batch& batch, const nb::dict& decoded) {
    batch.decoded.resize(batch.count);
    for (const auto& [key, value] : decoded) {
        const auto i = nb::cast<std::size_t>(key);
        const auto pixels = nb::cast<RgbArray>(value);
        require(i < batch.count, "the keys of decoded must be positions in the batch");
        batch.decoded[i] = {pixels.data(), static_cast<std::int64_t>(pixels.shape(0)),
                            static_cast<std::int64_t>(pixels.shape(1))};
    }
}

using Warp = std::tuple<Rows<double, 3, 3>, int, int, std::optional<Column<bool>>>;
using BorderColumns = std::tuple<Rows<std::int32_t, 2>, Rows<std::int32_t, -1>, Rows<std::int32_t, -1>>;
using Color = std::tuple<float, float, float>;
using NoiseColumns = std::tuple<Column<std::uint64_t>, Color, Array<const float, nb::shape<1 << 16>>>;
using Erase = std::tuple<Rows<std::int32_t, 4>, Color, std::optional<NoiseColumns>>;

void copy(const Color& color, float* to) { std::tie(to[0], to[1], to[2]) = color; }

void set_extras(Batch& batch, BoundSteps* steps, const std::optional<Rows<float, 3, 3>>& mean,
                const std::optional<Warp>& warp, const std::vector<Erase>& erase) {
    Extras& extras = batch.extras;
    if (steps != nullptr) {
        require(steps->count() == batch.count, "steps must be of as many samples as the batch has");
        extras.steps = steps->take();
    }
    if (mean) {
        require(mean->shape(0) == batch.count, "mean must have a row a sample");
        extras.mean = mean->data();
    }
    if (warp) {
        const auto& [matrix, height, width, nearest] = *warp;
        require(matrix.shape(0) == batch.count, "the matrix of a warp must have a row a sample");
        require(height >= 1 && width >= 1 && height <= kMaxSide && width <= kMaxSide,
                "the canvas of a warp must have 1 to 32768 pixels a side");
        require(!nearest || nearest->shape(0) == batch.count, "nearest must have a row a sample");
        extras.nearest = nearest ? nearest->data() : nullptr;
        extras.warp = matrix.data();
        extras.canvas_height = height;
        extras.canvas_width = width;
    }
    for (const auto& [box, value, noise] : erase) {
        require(box.shape(0) == batch.count, "boxes that are erased must have a row a sample");
        EraseColumn column{box.data(), nullptr, {}};
        copy(value, column.noise.mean);
        if (noise) {
            const auto& [keys, deviation, quantiles] = *noise;
            require(keys.shape(0) == batch.count, "the keys of noise must have a row a sample");
            column.keys = keys.data();
            column.noise.quantiles = quantiles.data();
            copy(deviation, column.noise.deviation);
        }
        extras.erase.push_back(column);
    }
}

void set_border(Batch& batch, const BorderColumns& border) {
    const auto& [tile, rows, columns] = border;
    for (const std::size_t count : {tile.shape(0), rows.shape(0), columns.shape(0)})
        require(count == batch.count, "a border must have a row a sample");
    require(rows.shape(1) == static_cast<std::size_t>(batch.bordered_height()) &&
                columns.shape(1) == static_cast<std::size_t>(batch.bordered_width()),
            "a border must have as many rows and columns as the output, or the canvas of a warp");
    batch.extras.tile = tile.data();
    batch.extras.border = {rows.data(), columns.data()};
}

// NOLINTNEXTLINE: one parameter a column, as the Python side passes them by name
Job submit(Pool& pool, const Shards& shards, const Column<std::int32_t>& shard, const Column<std::int64_t>& offset,
           const Column<std::int64_t>& length, const Column<std::uint32_t>& crc, const Column<std::uint8_t>& codec,
           const Column<std::int32_t>& height, const Column<std::int32_t>& width,
           const Column<std::uint8_t>& orientation, const nb::dict& decoded, const Rows<std::int32_t, 4>& crop,
           const Rows<double, 4>& region, const Rows<std::int32_t, 4>& dest, const Rows<bool, 2>& flip,
           const Colors& color, const Fill& fill, const Out& out, int layout, const StatusColumn& status,
           std::int64_t max_pixels, bool verify, bool decode_only, BoundSteps* steps,
           const std::optional<Rows<float, 3, 3>>& mean, const std::optional<Warp>& warp,
           const std::vector<Erase>& erase, const std::optional<Column<std::uint8_t>>& interpolation,
           const std::optional<BorderColumns>& border) {
    auto batch = std::make_shared<Batch>();
    batch->count = shard.shape(0);
    for (const std::size_t rows : {offset.shape(0), length.shape(0), crc.shape(0), codec.shape(0),
                                   height.shape(0), width.shape(0), orientation.shape(0), crop.shape(0),
                                   region.shape(0), dest.shape(0), flip.shape(0), color.shape(0), status.shape(0)})
        require(rows == batch->count, "all columns must have one length");
    set_form(*batch, out, layout);
    set_decoded(*batch, decoded);
    batch->files = shards.files();
    batch->samples = {shard.data(), offset.data(), length.data(), crc.data(),
                      codec.data(), height.data(), width.data(),  orientation.data()};
    require(!interpolation || interpolation->shape(0) == batch->count, "interpolation must have a row a sample");
    batch->parameters = {crop.data(),  region.data(), dest.data(), flip.data(),
                         color.data(), fill.data(),   interpolation ? interpolation->data() : nullptr};
    batch->status = status.data();
    batch->options.max_pixels = max_pixels;
    batch->options.verify = verify;
    batch->options.decode_only = decode_only;
    set_extras(*batch, steps, mean, warp, erase);
    if (border) set_border(*batch, *border);
    batch->check();
    nb::object arrays = nb::make_tuple(shard, offset, length, crc, codec, height, width, orientation, decoded,
                                       crop, region, dest, flip, color, fill, out, status, steps, mean, warp, erase,
                                       interpolation, border);
    pool.submit(batch);
    return Job(std::move(batch), std::move(arrays));
}

}  // namespace

void bind_pool(nb::module_& m) {
    nb::class_<Job>(m, "Job").def("wait", &Job::wait).def("done", &Job::done).def("reason", &Job::reason, "i"_a);
    nb::class_<Pool>(m, "Pool")
        .def(
            "__init__",
            [](Pool* self, int threads) {
                require(threads >= 1 && threads <= 1024, "num_threads must be between 1 and 1024");
                new (self) Pool(threads);
            },
            "num_threads"_a)
        .def_prop_ro("num_threads", &Pool::threads)
        .def("submit", submit, "shards"_a, "shard"_a, "offset"_a, "length"_a, "crc"_a, "codec"_a, "height"_a,
             "width"_a, "orientation"_a, "decoded"_a, "crop"_a, "region"_a, "dest"_a, "flip"_a, "color"_a,
             "fill"_a, "out"_a, "layout"_a, "status"_a, "max_pixels"_a, "verify"_a, "decode_only"_a = false,
             "steps"_a.none() = nb::none(), "mean"_a.none() = nb::none(), "warp"_a.none() = nb::none(),
             "erase"_a = nb::make_tuple(), "interpolation"_a.none() = nb::none(),
             "border"_a.none() = nb::none())
        .def("close", &Pool::close, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace stoker
