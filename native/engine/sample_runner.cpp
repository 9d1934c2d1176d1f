#include "engine/sample_runner.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "decode/header.h"
#include "decode/payload_check.h"
#include "steps/color_map.h"

namespace stoker {

Outcome SampleRunner::run(const BatchWork& work, std::size_t i) {
    Outcome outcome;
    try {
        outcome = execute(work, i);
    } catch (const std::bad_alloc&) {
        outcome = {Status::not_decodable, "no memory to decode it"};
    } catch (const std::exception& error) {
        std::snprintf(fault_, sizeof fault_, "%s", error.what());  // std::string might fail to allocate
        outcome = {Status::read_error, fault_};
    }
    if (outcome.status != Status::ok && !work.options.decode_only) {
        const Target target = work.target(i);
        std::memset(target.out, 0, target.bytes);
    }
    return outcome;
}

Outcome SampleRunner::execute(const BatchWork& work, std::size_t i) {
    EncodedImage image;
    Decoder* decoder = nullptr;
    const Outcome opened = open(work, i, image, decoder);
    if (opened.status != Status::ok) return opened;
    const auto orientation =
        decoder->needs_orientation() ? Orientation::exif(work.samples.orientation[i]) : Orientation{};
    int height = decoder->height(), width = decoder->width();
    if (orientation.transposed) std::swap(height, width);
    const Outcome size = outcome_of(check_size(height, width, work.samples.height[i], work.samples.width[i],
                                               work.options.max_pixels));
    if (size.status != Status::ok) return size;
    const Geometry geometry = work.geometry(i, orientation);
    if (work.options.decode_only) return renderer_.render(*decoder, geometry, nullptr);
    const Outcome outcome = renderer_.render(*decoder, geometry, &begin(work, i));
    if (outcome.status == Status::ok) finish(work, i);
    return outcome;
}

// Opens the payload, or the pixels that Python has decoded, as raw pixels.
Outcome SampleRunner::open(const BatchWork& work, std::size_t i, EncodedImage& image, Decoder*& decoder) {
    const RgbView& decoded = work.decoded[i];
    auto codec = static_cast<Codec>(work.samples.codec[i]);
    if (decoded.data != nullptr) {
        codec = Codec::raw;
        const auto bytes = static_cast<std::size_t>(3 * decoded.height * decoded.width);
        image = {{decoded.data, bytes}, decoded.height, decoded.width, work.options.max_pixels};
    } else {
        const Outcome outcome = read(work, i, image);
        if (outcome.status != Status::ok) return outcome;
        image.height = work.samples.height[i];
        image.width = work.samples.width[i];
        image.max_pixels = work.options.max_pixels;
    }
    decoder = decoders_.find(codec);
    if (decoder == nullptr)
        return outcome_of({Status::not_decodable, "the native engine decodes only " + codec_names()});
    return decoder->open(image) ? Outcome{} : decoder->failure();
}

// Reads the payload. The decoder of an image with bands checks it.
Outcome SampleRunner::read(const BatchWork& work, std::size_t i, EncodedImage& image) {
    CheckResult result = read_payload(*work.files, work.samples, i, storage_, image.payload);
    if (result.status != Status::ok) return outcome_of(std::move(result));
    const Bands bands = bands_of(work.samples, i);
    if (static_cast<Codec>(work.samples.codec[i]) == Codec::jpeg && bands.fit(image.payload.size)) {
        image.bands = bands;
        image.crc = work.samples.crc[i];
        image.checked = !work.options.verify;
    } else if (work.options.verify) {
        result = check_crc(image.payload, work.samples, i);
    }
    return outcome_of(std::move(result));
}

Outcome SampleRunner::outcome_of(CheckResult result) {
    message_ = std::move(result.reason);
    return {result.status, message_.c_str()};
}

// Returns the sink of the rows: the writer, or a whole image if a step or a mean needs all rows first.
RowSink& SampleRunner::begin(const BatchWork& work, std::size_t i) {
    const Target target = work.target(i);
    const Rectangle dest = work.dest(i);
    if (!work.needs_whole_image(i)) {
        writer_.begin(target, dest);
        return writer_;
    }
    image_.reset(target.height, target.width);
    image_sink_.begin(image_, dest, target.fill);
    return image_sink_;
}

void SampleRunner::finish(const BatchWork& work, std::size_t i) {
    if (work.needs_whole_image(i)) {
        steps_.run(work.steps, i, image_);
        Target target = work.target(i);
        std::copy(target.color, target.color + 12, color_);
        if (work.uses_mean(i)) add_mean(color_, work.parameters.mean_matrix + 9 * i, image_.mean().data());
        target.color = color_;
        writer_.begin(target, {0, 0, target.height, target.width});
        for (int y = 0; y < target.height; ++y) writer_.row(y, image_.row(y), image_.plane());
    }
    for (const EraseColumns& erase : work.erase) {
        if (erase.keys == nullptr)
            writer_.erase(erase.box_of(i), erase.value);
        else
            writer_.erase(erase.box_of(i), erase.noise_of(i));
    }
}

}  // namespace stoker
