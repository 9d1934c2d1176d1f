#include "engine/sample_runner.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "decode/checks/payload_check.h"
#include "decode/header.h"
#include "decode/read_window.h"
#include "engine/stage_trace.h"

namespace stoker {
namespace {

// The codec of a payload, or of pixels that Python has decoded.
Codec codec_of(const BatchWork& work, std::size_t i) {
    return work.decoded[i].data != nullptr ? Codec::raw : static_cast<Codec>(work.samples.codec[i]);
}

// The size of an image that is decoded at `eighths`/8 of its size.
Size reduced(Size size, int eighths) {
    const auto side = [eighths](std::int64_t whole) { return static_cast<int>((whole * eighths + 7) / 8); };
    return {side(size.height), side(size.width)};
}

}  // namespace

Outcome SampleRunner::run(const BatchWork& work, std::size_t i) {
    const Outcome outcome = guard_.run([&] { return execute(work, i); });
    if (!outcome.ok() && !work.options.decode_only)
        for (const ImageArray& images : work.images)
            for (std::size_t image = i; image < images.count; image += work.count) {
                const Target target = images.target(image);
                std::memset(target.out, 0, target.bytes);
            }
    return outcome;
}

Outcome SampleRunner::finish_waiting() {
    const Outcome outcome = guard_.run([&] {
        waiting_.finish(finisher_);
        return Outcome{};
    });
    waiting_.clear();
    return outcome;
}

Outcome SampleRunner::render(const BatchWork& work, std::size_t i, PlanarImage& image, PartSink& sink) {
    return guard_.run([&]() -> Outcome {
        KeptImages& kept = *work.kept;
        const Decoder* reader = decoders_.find(codec_of(work, i));
        const int exif = reader != nullptr && reader->needs_orientation() ? work.samples.orientation[i] : 1;
        const Size size{work.samples.height[i], work.samples.width[i]};
        const Geometry geometry = work.images.front().geometry(i, Orientation::exif(exif), size);
        const int eighths = reader != nullptr && reader->can_reduce() ? Renderer::least_eighths(geometry) : 8;
        const KeptImages::Key key{work.samples.shard[i], work.samples.offset[i], eighths};
        const bool keeps = work.decoded[i].data == nullptr && kept.keeps(reduced(size, eighths));
        KeptImages::Shared pixels = keeps ? kept.find(key) : nullptr;
        // A damaged index may give a payload two sizes. Then the payload is decoded again, which reports the wrong size.
        const bool transposed = Orientation::exif(exif).transposed;
        const Size stored = reduced(transposed ? Size{size.width, size.height} : size, eighths);
        if (pixels != nullptr && pixels->size() != stored) pixels = nullptr;
        sink.begin(image, geometry);
        if (pixels == nullptr) {
            Decoder* decoder = nullptr;
            Orientation orientation;
            if (const Outcome opened = open_checked(work, i, decoder, orientation); !opened.ok()) return opened;
            // Layers show samples of the whole epoch, which no near batch shows again.
            if (!keeps || work.composition.columns.layer[i] > 0) return renderer_.render(*decoder, geometry, sink);
            pixels = kept.make();
            if (const Outcome decoded = decode_whole(*decoder, eighths, *pixels); !decoded.ok()) return decoded;
            kept.keep(key, pixels);
        }
        renderer_.render(*pixels, eighths, geometry, sink);
        return {};
    });
}

Outcome SampleRunner::decode_whole(Decoder& decoder, int eighths, KeptImage& image) {
    const auto [height, width] = reduced({decoder.height(), decoder.width()}, eighths);
    image.reset({height, width});
    const auto take = [&, bytes = 3 * static_cast<std::size_t>(width)](const std::uint8_t* const* rows, int y, int count) {
        for (int row = 0; row < count; ++row) std::memcpy(image.row(y + row), rows[row], bytes);
    };
    return read_window(decoder, {0, 0, width, height}, eighths, take);
}

Outcome SampleRunner::execute(const BatchWork& work, std::size_t i) {
    Decoder* decoder = nullptr;
    Orientation orientation;
    if (const Outcome opened = open_checked(work, i, decoder, orientation); !opened.ok()) return opened;
    const int eighths = set_images(work, i, orientation);
    return decode(*decoder, decoder->can_reduce() ? eighths : 8, work.options.decode_only);
}

// Opens the payload of sample `i`, and compares the size of the image with the index.
Outcome SampleRunner::open_checked(const BatchWork& work, std::size_t i, Decoder*& decoder, Orientation& orientation) {
    EncodedImage image;
    if (const Outcome opened = open(work, i, image, decoder); !opened.ok()) return opened;
    if (decoder->needs_orientation()) orientation = Orientation::exif(work.samples.orientation[i]);
    int height = decoder->height(), width = decoder->width();
    if (orientation.transposed) std::swap(height, width);
    return outcome_of(check_size(height, width, work.samples.height[i], work.samples.width[i], work.options.max_pixels));
}

// Assigns a runner to each image of the sample. Returns the size, in eighths, that the image with the most pixels of
// the source needs.
int SampleRunner::set_images(const BatchWork& work, std::size_t i, Orientation orientation) {
    const Size source{work.samples.height[i], work.samples.width[i]};
    int eighths = 1;
    image_count_ = 0;
    for (const ImageArray& images : work.images)
        for (std::size_t image = i; image < images.count; image += work.count) {
            if (image_count_ == runners_.size()) runners_.push_back(std::make_unique<ImageRunner>());
            eighths = std::max(eighths, runners_[image_count_++]->set(images, image, orientation, source));
        }
    return eighths;
}

// Decodes the smallest window that holds those of all images, once.
Outcome SampleRunner::decode(Decoder& decoder, int eighths, bool decode_only) {
    const std::span images(runners_.data(), image_count_);
    Window all{};
    for (const auto& image : images)
        all = united(all, decode_only ? image->begin_decoding(eighths) : image->begin(eighths));
    const StageRange decoding("stoker.decode");
    const bool traced = StageTrace::runs();
    const std::int64_t began = traced ? StageTrace::now() : 0;
    std::int64_t augmented = 0;
    const auto take = [&](const std::uint8_t* const* rows, int y, int count) {
        if (decode_only) return;
        const StageRange augmenting("stoker.augment");
        const std::int64_t pushed = traced ? StageTrace::now() : 0;
        for (const auto& image : images) image->push(rows, y, count, all.left);
        if (traced) augmented += StageTrace::now() - pushed;
    };
    const Outcome outcome = read_window(decoder, all, eighths, take);
    const std::int64_t finishing = traced ? StageTrace::now() : 0;
    if (outcome.ok() && !decode_only) {
        const StageRange augmenting("stoker.augment");
        for (const auto& image : images) image->finish(waiting_);
    }
    if (traced) {
        // Decoding and augmenting alternate, some rows at a time. The trace shows one after the other.
        const std::int64_t decoded = finishing - augmented;
        StageTrace::add(StageSpan::decode, began, decoded);
        StageTrace::add(StageSpan::augment, decoded, StageTrace::now());
    }
    return outcome;
}

// Opens the payload, or the pixels that Python has decoded, as raw pixels.
Outcome SampleRunner::open(const BatchWork& work, std::size_t i, EncodedImage& image, Decoder*& decoder) {
    const RgbView& decoded = work.decoded[i];
    if (decoded.data != nullptr) {
        const auto bytes = static_cast<std::size_t>(3 * decoded.height * decoded.width);
        image = {{decoded.data, bytes}, decoded.height, decoded.width, work.options.max_pixels};
    } else {
        if (const Outcome outcome = read(work, i, image); !outcome.ok()) return outcome;
        image.height = work.samples.height[i];
        image.width = work.samples.width[i];
        image.max_pixels = work.options.max_pixels;
        image.grey = work.options.grey;
    }
    decoder = decoders_.find(codec_of(work, i));
    if (decoder == nullptr)
        return outcome_of({Status::not_decodable, "the native engine decodes only " + codec_names()});
    return decoder->open(image) ? Outcome{} : decoder->failure();
}

// Reads the payload. The decoder of an image with bands checks it.
Outcome SampleRunner::read(const BatchWork& work, std::size_t i, EncodedImage& image) {
    const StageRange reading("stoker.read");
    const std::int64_t began = StageTrace::runs() ? StageTrace::now() : 0;
    CheckResult result = read_payload(*work.files, work.samples, i, storage_, image.payload);
    if (!result.ok()) return outcome_of(std::move(result));
    const Bands bands = bands_of(work.samples, i);
    if (static_cast<Codec>(work.samples.codec[i]) == Codec::jpeg && bands.fit(image.payload.size)) {
        image.bands = bands;
        image.crc = work.samples.crc[i];
        image.checked = !work.options.verify;
    } else if (work.options.verify) {
        result = check_crc(image.payload, work.samples, i);
    }
    if (began > 0) StageTrace::add(StageSpan::read, began, StageTrace::now());
    return outcome_of(std::move(result));
}

Outcome SampleRunner::outcome_of(CheckResult result) {
    message_ = std::move(result.reason);
    return {result.status, message_.c_str()};
}

}  // namespace stoker
