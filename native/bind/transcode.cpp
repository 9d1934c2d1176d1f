#include <array>
#include <utility>

#include <nanobind/stl/array.h>

#include "bind/bind.h"
#include "decode/checks/size_check.h"
#include "transcode/transcode.h"

namespace stoker {
namespace {

using Result = std::tuple<nb::bytes, int, int>;

RgbView rgb_view_of(const RgbArray& array) {
    const RgbView pixels{array.data(), static_cast<std::int64_t>(array.shape(0)),
                        static_cast<std::int64_t>(array.shape(1))};
    require(pixels.height >= 1 && pixels.width >= 1 && pixels.height <= kMaxSourceSide && pixels.width <= kMaxSourceSide,
            "pixels must be (H, W, 3) with H and W from 1 to 2^24");
    return pixels;
}

Result result_of(const Transcoded& result) {
    return {nb::bytes(result.payload.data(), result.payload.size()), result.height, result.width};
}

Result transcode(nb::handle data, const std::string& mode, int height, int width, const std::string& encoding,
                 int quality, const std::string& subsampling, std::int64_t max_pixels, bool restarts) {
    const Buffer buffer(data);
    const TranscodeOptions options =
        parse_options(mode, height, width, encoding, quality, subsampling, max_pixels, restarts);
    return result_of(without_gil([&] { return transcode_payload({buffer.data(), buffer.size()}, options); }));
}

Result transcode_array(const RgbArray& pixels, const std::string& mode, int height, int width,
                       const std::string& encoding, int quality, const std::string& subsampling,
                       std::int64_t max_pixels, bool restarts) {
    const TranscodeOptions options =
        parse_options(mode, height, width, encoding, quality, subsampling, max_pixels, restarts);
    const RgbView source = rgb_view_of(pixels);
    return result_of(without_gil([&] { return transcode_pixels(source, options); }));
}

nb::ndarray<nb::numpy, std::uint8_t> resize_array(const RgbArray& pixels, std::pair<int, int> size,
                                                  std::optional<std::array<double, 4>> box) {
    const RgbView source = rgb_view_of(pixels);
    const double h = static_cast<double>(source.height), w = static_cast<double>(source.width);
    const std::array<double, 4> region = box.value_or(std::array<double, 4>{0, 0, h, w});
    const auto [height, width] = size;
    require(height >= 1 && width >= 1 && height <= 1 << 16 && width <= 1 << 16,
            "size must be (height, width), each from 1 to 65536");
    require(region[0] >= 0 && region[0] < region[2] && region[2] <= h && region[1] >= 0 && region[1] < region[3] &&
                region[3] <= w,
            "box must be (top, left, bottom, right), not empty, and lie within the pixels");
    return array_of(without_gil([&] { return resize(source, region.data(), size.first, size.second); }),
                    {static_cast<std::size_t>(height), static_cast<std::size_t>(width), 3});
}

}  // namespace

void bind_transcode(nb::module_& m) {
    m.def("transcode", transcode, "data"_a, "mode"_a, "height"_a, "width"_a, "encoding"_a, "quality"_a,
          "subsampling"_a, "max_pixels"_a, "restarts"_a = false);
    m.def("transcode_pixels", transcode_array, "pixels"_a, "mode"_a, "height"_a, "width"_a, "encoding"_a,
          "quality"_a, "subsampling"_a, "max_pixels"_a, "restarts"_a = false);
    m.def("resize", resize_array, "pixels"_a, "size"_a, "box"_a = nb::none());
}

}  // namespace stoker
