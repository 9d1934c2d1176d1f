#include <cmath>
#include <memory>

#include "bind/bind.h"
#include "bind/columns.h"
#include "channels/channel_image.h"
#include "channels/channel_warp.h"
#include "channels/mean_subtraction.h"
#include "decode/codecs.h"
#include "pixels/displacement.h"

namespace stoker {
namespace {

using Pixels = nb::ndarray<nb::ro, nb::c_contig, nb::ndim<3>, nb::device::cpu>;
using ChannelOutput = nb::ndarray<nb::c_contig, nb::ndim<3>, nb::device::cpu>;
using Levels = Vector<float>;
using Edges = Array<const std::int32_t, nb::shape<4>>;
using Region = Array<const double, nb::shape<4>>;
using Flip = Array<const bool, nb::shape<2>>;

constexpr std::size_t kMaxSide = 1 << 24;
constexpr double kTolerance = 1e-3;  // for rounding errors of a region

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

Parameters parameters_of(const Edges& crop, const Region& region, const Edges& dest, const Flip& flip,
                         int interpolation, const Size& image, const Size& target) {
    require(interpolation >= 0 && interpolation <= static_cast<int>(kLastInterpolation),
            "interpolation must be from 0 to 5");
    const Parameters p{crop.data(), region.data(), dest.data(), flip.data(), static_cast<Interpolation>(interpolation)};
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
    return p;
}

Window window_of(const Edges& edges) {
    const std::int32_t* edge = edges.data();  // top, left, bottom, right
    return {edge[1], edge[0], edge[3], edge[2]};
}

void resample_channels(const Pixels& pixels, const ChannelOutput& out, const std::string& dtype, bool planar,
                       const Edges& crop, const Region& region, const Edges& dest, const Flip& flip, int interpolation,
                       const Levels& scale, const Levels& shift, const Levels& fill) {
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
    const Parameters parameters = parameters_of(crop, region, dest, flip, interpolation, {image.height, image.width},
                                                {target.height, target.width});
    const nb::gil_scoped_release release;
    static thread_local ChannelResampler resampler;
    resampler.run(image, parameters, target);
}

// The levels of an image, (height, width, C), which are changed in place.
using LevelImage = Array<float, nb::ndim<3>>;

void subtract_mean(const Array<const float, nb::ndim<3>>& levels, const LevelImage& image, bool planar,
                   const Edges& crop, const Region& region, const Edges& dest, const Flip& flip, int interpolation,
                   const Levels& scale) {
    require(levels.size() > 0 && levels.shape(0) <= kMaxSide && levels.shape(1) <= kMaxSide,
            "levels must have 1 to 2^24 pixels a side");
    const std::size_t channels = levels.shape(2), steps = image.shape(planar ? 0 : 2);
    require((planar ? steps == channels : steps >= channels) && scale.shape(0) == channels,
            "image must have the channels of levels, and scale a number for each");
    const MeanLevels mean{levels.data(), static_cast<int>(levels.shape(0)), static_cast<int>(levels.shape(1)),
                          static_cast<int>(channels)};
    const MeanTarget target{image.data(), static_cast<int>(image.shape(planar ? 1 : 0)),
                            static_cast<int>(image.shape(planar ? 2 : 1)), static_cast<int>(steps), planar};
    const Parameters parameters = parameters_of(crop, region, dest, flip, interpolation, {mean.height, mean.width},
                                                {target.height, target.width});
    const nb::gil_scoped_release release;
    static thread_local MeanSubtractor subtractor;
    subtractor.run(mean, parameters, scale.data(), target);
}

// Returns an image as (height, width, C), or None if Pillow must decode it.
nb::object stored_pixels(int codec, const nb::object& data, bool alpha, std::int64_t max_pixels, const Edges& window) {
    const CodecEntry* entry = find_codec(static_cast<Codec>(codec));
    if (entry == nullptr || entry->decode_stored == nullptr) return nb::none();
    const Buffer buffer(data);
    const StoredRequest request{alpha, max_pixels, window_of(window)};
    StoredPixels pixels;
    const CheckResult result =
        without_gil([&] { return entry->decode_stored({buffer.data(), buffer.size()}, request, pixels); });
    if (!result.ok()) throw nb::value_error(result.reason.c_str());
    if (pixels.channels == 0) return nb::none();
    const std::size_t shape[] = {static_cast<std::size_t>(pixels.height), static_cast<std::size_t>(pixels.width),
                                 static_cast<std::size_t>(pixels.channels)};
    std::uint8_t* levels = pixels.levels.get();
    const nb::capsule owner = capsule_of(std::move(pixels.levels));
    if (pixels.bits == 16) return nb::cast(nb::ndarray<nb::numpy, std::uint16_t>(levels, 3, shape, owner));
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(levels, 3, shape, owner));
}

Size size_of(const LevelImage& levels) {
    require(levels.shape(0) <= kMaxSide && levels.shape(1) <= kMaxSide, "levels must have at most 2^24 pixels a side");
    return {static_cast<int>(levels.shape(0)), static_cast<int>(levels.shape(1))};
}

void warp_levels(const Pixels& pixels, const LevelImage& levels, const Array<const double, nb::shape<3, 3>>& matrix,
                 const Edges& window, bool picks, const Levels& fill) {
    const ChannelImage image = image_of(pixels);
    const Size size = size_of(levels);
    require(levels.shape(2) == pixels.shape(2) && fill.shape(0) == pixels.shape(2),
            "levels must have the channels of pixels, and fill a number for each");
    const Window seen = window_of(window);
    require(seen.left >= 0 && seen.top >= 0 && seen.left < seen.right && seen.top < seen.bottom &&
                seen.right <= image.width && seen.bottom <= image.height,
            "window must lie within the image");
    for (std::size_t i = 0; i < 9; ++i) require(std::isfinite(matrix.data()[i]), "matrix must be finite");
    const WarpMap map(matrix.data(), seen);
    const nb::gil_scoped_release release;
    warp_channels(image, map, size, picks, fill.data(), levels.data());
}

void displace_levels(const LevelImage& levels, std::uint64_t key, const Array<const double, nb::shape<2>>& alpha,
                     const Array<const double, nb::shape<2>>& sigma, bool nearest, bool rounds, const Levels& fill) {
    const Size size = size_of(levels);
    require(fill.shape(0) == levels.shape(2), "fill must have a number for each channel");
    for (const double one : {sigma.data()[0], sigma.data()[1]})
        require(one >= 0 && one <= kMaxDisplacementSigma, "sigma must be two numbers within 0 to 1000");
    require(std::isfinite(alpha.data()[0]) && std::isfinite(alpha.data()[1]), "alpha must be two finite numbers");
    const Displacement displacement{key, alpha.data(), sigma.data(), nearest};
    const nb::gil_scoped_release release;
    displace_channels(levels.data(), size, static_cast<int>(levels.shape(2)), displacement, rounds, fill.data());
}

}  // namespace

void bind_channels(nb::module_& m) {
    m.def("decode_stored", stored_pixels, "codec"_a, "data"_a, "alpha"_a, "max_pixels"_a, "window"_a);
    m.def("subtract_mean", subtract_mean, "levels"_a.noconvert(), "image"_a.noconvert(), nb::kw_only(), "planar"_a,
          "crop"_a, "region"_a, "dest"_a, "flip"_a, "interpolation"_a, "scale"_a);
    m.def("warp_channels", warp_levels, "pixels"_a.noconvert(), "levels"_a.noconvert(), nb::kw_only(), "matrix"_a,
          "window"_a, "picks"_a, "fill"_a);
    m.def("displace_channels", displace_levels, "levels"_a.noconvert(), nb::kw_only(), "key"_a, "alpha"_a, "sigma"_a,
          "nearest"_a, "rounds"_a, "fill"_a);
    m.def("resample_channels", resample_channels, "pixels"_a.noconvert(), "out"_a.noconvert(), nb::kw_only(),
          "dtype"_a, "planar"_a, "crop"_a, "region"_a, "dest"_a, "flip"_a, "interpolation"_a, "scale"_a, "shift"_a,
          "fill"_a);
}

}  // namespace stoker
