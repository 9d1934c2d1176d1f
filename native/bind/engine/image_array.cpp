#include "bind/engine/image_array.h"

#include <iterator>
#include <utility>

#include "engine/images/image_finisher.h"

namespace stoker {
namespace {

DType dtype_of(const Out& out) {
    if (out.dtype() == nb::dtype<float>()) return DType::float32;
    if (out.dtype() == nb::dtype<std::uint8_t>()) return DType::uint8;
    if (out.dtype() == nb::dtype<std::uint16_t>()) return DType::bfloat16;
    const nb::dlpack::dtype half{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    require(out.dtype() == half, "out must be uint8, float16, float32, or uint16 for bfloat16");
    return DType::float16;
}

void set_output(ImageArray& images, const Out& out, int layout) {
    require(layout >= 0 && layout <= 3,
            "layout must be 0 (NCHW), 1 (NHWC), 2 (NHWC with four channels) or 3 (one channel, NCHW)");
    images.layout = static_cast<Layout>(layout);
    images.dtype = dtype_of(out);
    const bool planar = images.layout == Layout::nchw || images.layout == Layout::grey;
    require(out.shape(planar ? 1 : 3) == channels_of(images.layout), "out must have the shape that layout asks for");
    const std::size_t height = out.shape(planar ? 2 : 1), width = out.shape(planar ? 3 : 2);
    require(height >= 1 && width >= 1 && height <= kMaxSide && width <= kMaxSide,
            "out must have images of 1 to 32768 pixels a side");
    images.output = {static_cast<int>(height), static_cast<int>(width)};
    images.out = out.data();
}

}  // namespace

BoundImageArray::BoundImageArray(const nb::dict& params, const Out& out, int layout, BoundSteps* steps,
                                 const std::vector<nb::dict>& erase, bool exact, const nb::dict& composition,
                                 std::shared_ptr<const PythonSteps> last_steps)
    : image_count_(out.shape(0)) {
    set_output(images_, out, layout);
    images_.count = image_count_;
    if (composition.size() > 0) {
        images_.count = nb::len(nb::object(composition["composition.image"]));
        composition_ = unpack<CompositionColumns>(composition, kCompositionColumns, images_.count, kept_);
    }
    kept_.emplace_back(out);
    images_.exact = exact;
    images_.parameters = unpack<ParameterColumns>(params, kParameterColumns, images_.count, kept_);
    for (const nb::dict& columns : erase)
        images_.erase.push_back(unpack<EraseColumns>(columns, kEraseColumns, images_.count, kept_));
    require(last_steps == nullptr || last_steps->count() == images_.count,
            "last_steps must be for the same number of samples as the batch");
    require(last_steps == nullptr || !last_steps->takes_several() || images_.parameters.image_size == nullptr,
            "last_steps that take several images need images of one size");
    images_.last_steps = std::move(last_steps);
    if (steps == nullptr) return;
    require(steps->count() == images_.count, "steps must be for the same number of samples as the batch");
    images_.steps = steps->take(kept_);
}

namespace {

// Returns the first byte of each image of this size.
std::vector<const std::uint8_t*> images_of(const std::vector<PlanarImages>& parts, Size size) {
    std::vector<const std::uint8_t*> images;
    for (const PlanarImages& part : parts) {
        require(part.shape(2) == static_cast<std::size_t>(size.height) &&
                    part.shape(3) == static_cast<std::size_t>(size.width),
                "pixels must have the size of out");
        for (std::size_t i = 0; i < part.shape(0); ++i) images.push_back(part.data() + 3 * i * size.pixels());
    }
    return images;
}

}  // namespace

void BoundImageArray::finish(const std::vector<PlanarImages>& parts) {
    KeptArrays kept;
    const ImageArray images = take(kept);
    const auto [height, width] = images.output;
    const std::vector<const std::uint8_t*> pixels = images_of(parts, images.output);
    require(pixels.size() == images.count, "pixels must have as many images as out");
    require(composition_.image == nullptr && images.steps.empty() && images.last_steps == nullptr,
            "steps and images of several samples come before the pixels");
    SampleColumns whole{};
    whole.height = &height;
    whole.width = &width;
    images.check(whole, 1);
    const nb::gil_scoped_release release;
    thread_local ImageFinisher finisher;
    thread_local PlanarImage part;  // a row, or the whole image if its mean is needed
    const std::size_t plane = images.output.pixels();
    for (std::size_t i = 0; i < images.count; ++i) {
        const std::uint8_t* planes = pixels[i];
        const Target target = images.target(i);
        if (images.uses_mean(i)) {
            part.reset(target.height, target.width);
            part.copy(planes, plane, width);
            finisher.store(images, i, target, part);
            continue;
        }
        part.reset(1, target.width);
        finisher.writer().begin(target, {0, 0, target.height, target.width});
        for (int y = 0; y < target.height; ++y, planes += width) {
            part.copy(planes, plane, width);
            finisher.writer().row(y, part.row(0), part.plane());
        }
        finisher.erase(images, i);
    }
    finish_stores();
}

Composition BoundImageArray::composition() const {
    if (composition_.image == nullptr) return {};
    return Composition::of(composition_, images_.count, image_count_, images_.output);
}

ImageArray BoundImageArray::take(KeptArrays& kept) {
    require(!taken_, "these images belong to a batch already: make new ones");
    taken_ = true;
    std::move(kept_.begin(), kept_.end(), std::back_inserter(kept));
    kept_.clear();
    return std::move(images_);
}

}  // namespace stoker
