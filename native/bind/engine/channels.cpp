#include "bind/bind.h"
#include "bind/columns.h"
#include "channels/channel_image.h"

namespace stoker {
namespace {

using Pixels = nb::ndarray<nb::ro, nb::c_contig, nb::ndim<3>, nb::device::cpu>;
using ChannelOutput = nb::ndarray<nb::c_contig, nb::ndim<3>, nb::device::cpu>;
using Levels = Array<const float, nb::ndim<1>>;

constexpr std::size_t kMaxSide = 1 << 24;
constexpr double kTolerance = 1e-3;  // of a region, for rounding errors

ChannelImage image_of(const Pixels& pixels) {
    require(pixels.size() > 0 && pixels.shape(0) <= kMaxSide && pixels.shape(1) <= kMaxSide,
            "pixels must have 1 to 2^24 pixels a side");
    ChannelImage image;
    image.data = pixels.data();
    image.height = static_cast<int>(pixels.shape(0));
    image.width = static_cast<int>(pixels.shape(1));
    image.channels = static_cast<int>(pixels.shape(2));
    if (pixels.dtype() == nb::dtype<std::uint8_t>())
        image.type = PixelType::uint8;
    else if (pixels.dtype() == nb::dtype<std::uint16_t>())
        image.type = PixelType::uint16;
    else if (pixels.dtype() == nb::dtype<float>())
        image.type = PixelType::float32;
    else
        throw nb::value_error("pixels must be uint8, uint16 or float32");
    return image;
}

ChannelOut type_named(const std::string& name) {
    if (name == "uint8") return ChannelOut::uint8;
    if (name == "uint16") return ChannelOut::uint16;
    if (name == "float16") return ChannelOut::float16;
    if (name == "bfloat16") return ChannelOut::bfloat16;
    require(name == "float32", "dtype must be uint8, uint16, float16, bfloat16 or float32");
    return ChannelOut::float32;
}

std::size_t bytes_of(ChannelOut type) {
    return type == ChannelOut::float32 ? 4 : type == ChannelOut::uint8 ? 1 : 2;
}

void check(const Parameters& p, const ChannelImage& image, const ChannelTarget& target) {
    const int sizes[] = {image.height, image.width}, outputs[] = {target.height, target.width};
    for (int axis = 0; axis < 2; ++axis) {
        const std::int64_t start = p.crop[axis], length = p.crop[axis + 2];
        require(start >= 0 && length >= 1 && start + length <= sizes[axis], "crop must lie within the image");
        require(p.region[axis] >= static_cast<double>(start) - kTolerance && p.region[axis] < p.region[axis + 2] &&
                    p.region[axis + 2] <= static_cast<double>(start + length) + kTolerance,
                "region must lie within crop");
        const std::int64_t at = p.dest[axis], size = p.dest[axis + 2];
        require(at >= 0 && size >= 0 && at + size <= outputs[axis], "dest must lie within the output");
    }
    require(p.interpolation <= Interpolation::lanczos, "interpolation must be from 0 to 3");
}

void resample_channels(const Pixels& pixels, const ChannelOutput& out, const std::string& dtype, bool planar,
                       const Array<const std::int32_t, nb::shape<4>>& crop,
                       const Array<const double, nb::shape<4>>& region,
                       const Array<const std::int32_t, nb::shape<4>>& dest, const Array<const bool, nb::shape<2>>& flip,
                       int interpolation, const Levels& scale, const Levels& shift, const Levels& fill) {
    const ChannelImage image = image_of(pixels);
    ChannelTarget target;
    target.out = out.data();
    target.type = type_named(dtype);
    target.planar = planar;
    target.height = static_cast<int>(out.shape(planar ? 1 : 0));
    target.width = static_cast<int>(out.shape(planar ? 2 : 1));
    const std::size_t channels = pixels.shape(2);
    require(out.shape(planar ? 0 : 2) == channels && out.itemsize() == bytes_of(target.type),
            "out must have the channels of pixels and elements of dtype");
    for (const Levels* levels : {&scale, &shift, &fill})
        require(levels->shape(0) == channels, "scale, shift and fill must have a number for each channel");
    target.scale = scale.data();
    target.shift = shift.data();
    target.fill = fill.data();
    require(interpolation >= 0 && interpolation <= 3, "interpolation must be from 0 to 3");
    const Parameters parameters{crop.data(), region.data(), dest.data(), flip.data(),
                                static_cast<Interpolation>(interpolation)};
    check(parameters, image, target);
    const nb::gil_scoped_release release;
    static thread_local ChannelResampler resampler;
    resampler.run(image, parameters, target);
}

}  // namespace

void bind_channels(nb::module_& m) {
    m.def("resample_channels", resample_channels, "pixels"_a.noconvert(), "out"_a.noconvert(), nb::kw_only(),
          "dtype"_a, "planar"_a, "crop"_a, "region"_a, "dest"_a, "flip"_a, "interpolation"_a, "scale"_a, "shift"_a,
          "fill"_a);
}

}  // namespace stoker
