#include "transcode/transcode.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "decode/codecs.h"
#include "decode/header.h"
#include "engine/images/renderer.h"
#include "pixels/image_writer.h"

namespace stoker {
namespace {

constexpr int kLargestJpegSide = 65500;  // JPEG_MAX_DIMENSION of libjpeg

template <class Value>
struct Choice {
    const char* name;
    Value value;
};

template <class Value, std::size_t n>
Value parse(const std::string& name, const std::string& word, const Choice<Value> (&choices)[n]) {
    std::string known;
    for (const auto& choice : choices) {
        if (word == choice.name) return choice.value;
        known += known.empty() ? choice.name : std::string(", ") + choice.name;
    }
    throw std::invalid_argument(name + " must be one of " + known + "; found " + word);
}

// The region of the source, the size of the output, and the rectangle that the region becomes.
struct Plan {
    double region[4];
    int height, width;
    Rectangle dest;
};

Plan whole(int source_height, int source_width, int height, int width) {
    return {{0, 0, static_cast<double>(source_height), static_cast<double>(source_width)},
            height,
            width,
            {0, 0, height, width}};
}

// In 64 bits: a thin image that covers a large output has more pixels along its longer side than an int holds.
std::int64_t rounded(double value) { return std::max<std::int64_t>(1, std::llround(value)); }

Plan side_plan(int h, int w, int side, int reference) {
    if (reference <= side) return whole(h, w, h, w);
    const auto scaled = [&](int size) {
        return std::max(1, static_cast<int>(static_cast<std::int64_t>(size) * side / reference));
    };
    return whole(h, w, scaled(h), scaled(w));
}

Plan crop_plan(int h, int w, int height, int width) {
    Plan plan = whole(h, w, height, width);
    const double y_ratio = static_cast<double>(h) / height, x_ratio = static_cast<double>(w) / width;
    const bool cut_x = x_ratio > y_ratio;
    const int size = cut_x ? w : h, target = cut_x ? width : height;
    const std::int64_t resized = std::max<std::int64_t>(target, rounded(size / std::min(y_ratio, x_ratio)));
    const std::int64_t start = std::llround(static_cast<double>(resized - target) / 2);
    const double pixel = size / static_cast<double>(resized);
    plan.region[cut_x ? 1 : 0] = static_cast<double>(start) * pixel;
    plan.region[cut_x ? 3 : 2] = std::min<double>(size, static_cast<double>(start + target) * pixel);
    return plan;
}

Plan fill_plan(int h, int w, int height, int width) {
    Plan plan = whole(h, w, height, width);
    const double y_ratio = static_cast<double>(h) / height, x_ratio = static_cast<double>(w) / width;
    const bool pad_y = x_ratio > y_ratio;
    const int size = pad_y ? h : w, target = pad_y ? height : width;
    const std::int64_t scaled = rounded(size / std::max(y_ratio, x_ratio));
    int resized = static_cast<int>(std::min<std::int64_t>(target, scaled));
    resized += (target - resized) & 1;  // so that the padding is equal at both ends
    (pad_y ? plan.dest.height : plan.dest.width) = resized;
    (pad_y ? plan.dest.top : plan.dest.left) = (target - resized) / 2;
    return plan;
}

Plan plan_of(const TranscodeOptions& options, int h, int w) {
    switch (options.mode) {
        case Mode::none: return whole(h, w, h, w);
        case Mode::shorter: return side_plan(h, w, options.height, std::min(h, w));
        case Mode::longer: return side_plan(h, w, options.height, std::max(h, w));
        case Mode::squash: return whole(h, w, options.height, options.width);
        case Mode::crop: return crop_plan(h, w, options.height, options.width);
        case Mode::fill: return fill_plan(h, w, options.height, options.width);
    }
    return whole(h, w, h, w);
}

// An image that is rendered outside a batch.
class OutputImage {
  public:
    OutputImage(const Plan& plan, Orientation orientation, int source_height, int source_width)
        : rgb_(static_cast<std::size_t>(plan.height) * static_cast<std::size_t>(plan.width) * 3) {
        const std::int32_t crop[4] = {0, 0, source_height, source_width};
        const std::int32_t dest[4] = {plan.dest.top, plan.dest.left, plan.dest.height, plan.dest.width};
        const bool flip[2] = {false, false};
        geometry_.resize = resize_of({crop, plan.region, dest, flip}, orientation,
                                           {source_height, source_width}, {plan.height, plan.width});
        static const float identity[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
        static const std::uint8_t black[3] = {0, 0, 0};
        target_.out = rgb_.data();
        target_.bytes = rgb_.size();
        target_.dtype = DType::uint8;
        target_.layout = Layout::nhwc;
        target_.height = target_.array_height = plan.height;
        target_.width = target_.array_width = plan.width;
        target_.color = identity;
        target_.fill = black;
    }
    RowSink& begin(ImageWriter& writer) {
        writer.begin(target_, geometry_.resize.dest);
        return writer;
    }
    const Geometry& geometry() const { return geometry_; }
    std::vector<std::uint8_t>& rgb() { return rgb_; }

  private:
    std::vector<std::uint8_t> rgb_;
    Geometry geometry_;
    Target target_;
};

// The decoders and buffers of one thread.
struct Worker {
    Decoders decoders;
    Renderer renderer;
    ImageWriter writer;
};

Worker& thread_worker() {
    thread_local Worker worker;
    return worker;
}

void require_pixels(std::int64_t height, std::int64_t width, std::int64_t max_pixels) {
    if (height * width > max_pixels)
        throw std::invalid_argument(std::to_string(height) + "x" + std::to_string(width) +
                                    " pixels are more than max_pixels, " + std::to_string(max_pixels));
}

void require_ok(const Outcome& outcome) {
    if (!outcome.ok()) throw std::invalid_argument(outcome.message);
}

void open(Decoder& decoder, const EncodedImage& image) {
    if (!decoder.open(image)) throw std::invalid_argument(decoder.failure().message);
}

std::vector<std::uint8_t> rendered(const RgbView& pixels, const Plan& plan) {
    const int height = static_cast<int>(pixels.height), width = static_cast<int>(pixels.width);
    OutputImage output(plan, {}, height, width);
    auto& [decoders, renderer, writer] = thread_worker();
    Decoder& decoder = *decoders.find(Codec::raw);
    const auto bytes = static_cast<std::size_t>(3 * pixels.height * pixels.width);
    open(decoder, {{pixels.data, bytes}, pixels.height, pixels.width, pixels.height * pixels.width});
    require_ok(renderer.render(decoder, output.geometry(), output.begin(writer)));
    return std::move(output.rgb());
}

Transcoded encoded(std::vector<std::uint8_t>&& rgb, const Plan& plan, const TranscodeOptions& options) {
    Transcoded result{std::move(rgb), plan.height, plan.width};
    if (options.jpeg)
        result.payload = encode_jpeg(result.payload.data(), plan.height, plan.width, options.encoding);
    return result;
}

}  // namespace

TranscodeOptions parse_options(const std::string& mode, int height, int width, const std::string& encoding,
                               int quality, const std::string& subsampling, std::int64_t max_pixels,
                               bool restarts) {
    TranscodeOptions options;
    options.mode = parse<Mode>("mode", mode,
                               {{"none", Mode::none},
                                {"shorter", Mode::shorter},
                                {"longer", Mode::longer},
                                {"squash", Mode::squash},
                                {"crop", Mode::crop},
                                {"fill", Mode::fill}});
    options.jpeg = parse<bool>("encoding", encoding, {{"jpeg", true}, {"raw", false}});
    options.encoding.subsampling = parse<Subsampling>(
        "subsampling", subsampling,
        {{"444", Subsampling::s444}, {"422", Subsampling::s422}, {"420", Subsampling::s420}});
    if (options.mode != Mode::none &&
        (height < 1 || width < 1 || height > kLargestJpegSide || width > kLargestJpegSide))
        throw std::invalid_argument("height and width must be between 1 and 65500");
    if (quality < 1 || quality > 100) throw std::invalid_argument("quality must be between 1 and 100");
    options.height = height;
    options.width = width;
    options.encoding.quality = quality;
    options.encoding.restarts = restarts;
    options.max_pixels = max_pixels;
    return options;
}

Transcoded transcode_payload(const Payload& payload, const TranscodeOptions& options) {
    auto& [decoders, renderer, writer] = thread_worker();
    const Header header = probe(payload.data, payload.size);
    Decoder* decoder = decoders.find(header.codec);
    if (decoder == nullptr)
        throw std::invalid_argument("the data is not an image that is decoded here: " + codec_names());
    open(*decoder, {payload, header.height, header.width, options.max_pixels});
    int height = decoder->height(), width = decoder->width();
    require_pixels(height, width, options.max_pixels);
    const Orientation orientation = Orientation::exif(header.orientation);
    if (orientation.transposed) std::swap(height, width);
    const Plan plan = plan_of(options, height, width);
    OutputImage output(plan, orientation, height, width);
    require_ok(renderer.render(*decoder, output.geometry(), output.begin(writer)));
    return encoded(std::move(output.rgb()), plan, options);
}

Transcoded transcode_pixels(const RgbView& pixels, const TranscodeOptions& options) {
    require_pixels(pixels.height, pixels.width, options.max_pixels);
    const Plan plan = plan_of(options, static_cast<int>(pixels.height), static_cast<int>(pixels.width));
    return encoded(rendered(pixels, plan), plan, options);
}

std::vector<std::uint8_t> resize(const RgbView& pixels, const double box[4], int height, int width) {
    Plan plan = whole(static_cast<int>(pixels.height), static_cast<int>(pixels.width), height, width);
    std::copy(box, box + 4, plan.region);
    return rendered(pixels, plan);
}

}  // namespace stoker
