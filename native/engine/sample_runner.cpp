#include "engine/sample_runner.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "decode/header.h"
#include "records/crc32c.h"

namespace stoker {

Outcome SampleRunner::run(const Batch& batch, std::size_t i) {
    Outcome outcome;
    try {
        outcome = execute(batch, i);
    } catch (const std::bad_alloc&) {
        outcome = {Status::not_decodable, "no memory to decode it"};
    } catch (const std::exception& error) {
        std::snprintf(fault_, sizeof fault_, "%s", error.what());  // a string might find no memory
        outcome = {Status::read_error, fault_};
    }
    if (outcome.status != Status::ok && !batch.options.decode_only) {
        const Target target = batch.target(i);
        std::memset(target.out, 0, target.bytes);
    }
    return outcome;
}

Outcome SampleRunner::execute(const Batch& batch, std::size_t i) {
    EncodedImage image;
    Decoder* decoder = nullptr;
    const Outcome opened = open(batch, i, image, decoder);
    if (opened.status != Status::ok) return opened;
    const auto orientation =
        decoder->stores_orientation() ? Orientation::exif(batch.samples.orientation[i]) : Orientation{};
    int height = decoder->height(), width = decoder->width();
    if (orientation.transposed) std::swap(height, width);
    const Outcome size = outcome_of(check_size(height, width, batch.samples.height[i], batch.samples.width[i],
                                               batch.options.max_pixels));
    if (size.status != Status::ok) return size;
    const Geometry geometry = batch.geometry(i, orientation);
    if (batch.options.decode_only) return renderer_.render(*decoder, geometry, nullptr);
    const Outcome outcome = renderer_.render(*decoder, geometry, &begin(batch, i));
    if (outcome.status == Status::ok) finish(batch, i);
    return outcome;
}

// Pixels that Python decoded take the way of raw ones.
Outcome SampleRunner::open(const Batch& batch, std::size_t i, EncodedImage& image, Decoder*& decoder) {
    const RgbView& decoded = batch.decoded[i];
    auto codec = static_cast<Codec>(batch.samples.codec[i]);
    if (decoded.data != nullptr) {
        codec = Codec::raw;
        const auto bytes = static_cast<std::size_t>(3 * decoded.height * decoded.width);
        image = {{decoded.data, bytes}, decoded.height, decoded.width, batch.options.max_pixels};
    } else {
        const Outcome outcome = read(batch, i, image.payload);
        if (outcome.status != Status::ok) return outcome;
        image.height = batch.samples.height[i];
        image.width = batch.samples.width[i];
        image.max_pixels = batch.options.max_pixels;
    }
    decoder = decoders_.find(codec);
    if (decoder == nullptr)
        return outcome_of({Status::not_decodable, "the native engine decodes only " + codec_names()});
    return decoder->open(image) ? Outcome{} : decoder->failure();
}

Outcome SampleRunner::read(const Batch& batch, std::size_t i, Payload& payload) {
    const std::int64_t shard = batch.samples.shard[i];
    const std::int64_t offset = batch.samples.offset[i], length = batch.samples.length[i];
    if (shard < 0 || shard >= static_cast<std::int64_t>(batch.files->size()))
        return {Status::read_error, "there is no such shard"};
    const DataFile& file = *(*batch.files)[static_cast<std::size_t>(shard)];
    if (!file.contains(offset, length)) return {Status::read_error, "the payload lies outside its shard"};
    payload = file.read(offset, length, storage_);
    if (batch.options.verify && crc32c(payload.data, payload.size) != batch.samples.crc[i])
        return {Status::checksum_mismatch, "CRC32C differs from the index"};
    return {};
}

Outcome SampleRunner::outcome_of(CheckResult finding) {
    message_ = std::move(finding.reason);
    return {finding.status, message_.c_str()};
}

// Rows are stored as they come, unless something needs all of them first.
RowSink& SampleRunner::begin(const Batch& batch, std::size_t i) {
    const Target target = batch.target(i);
    const Rectangle dest = batch.dest(i);
    if (!batch.extras.needs_whole_image(i)) {
        writer_.begin(target, dest);
        return writer_;
    }
    image_.reset(target.height, target.width);
    image_sink_.begin(image_, dest, target.fill);
    return image_sink_;
}

void SampleRunner::finish(const Batch& batch, std::size_t i) {
    const Extras& extras = batch.extras;
    if (extras.needs_whole_image(i)) {
        steps_.run(extras.steps, i, image_);
        Target target = batch.target(i);
        std::copy(target.color, target.color + 12, color_);
        if (extras.uses_mean(i)) add_mean(color_, extras.mean + 9 * i, image_.mean().data());
        target.color = color_;
        writer_.begin(target, {0, 0, target.height, target.width});
        for (int y = 0; y < target.height; ++y) writer_.row(y, image_.row(y), image_.plane());
    }
    for (const EraseColumn& erase : extras.erase) {
        if (erase.keys == nullptr)
            writer_.erase(erase.at(i), erase.noise.mean);
        else
            writer_.erase(erase.at(i), erase.noise_of(i));
    }
}

}  // namespace stoker
