#include "sample_runner.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>

#include "crc32c.h"
#include "header.h"

namespace stoker {
namespace {

// The window of the source that a resampler wants, and its axes in the window's coordinates.
Window window_of(Resampler& resampler, const Placement& placement) {
    const Span &x = placement.x, &y = placement.y;
    resampler.x.set(x.begin, x.end, x.low, x.high, x.outputs, x.reversed);
    // Rows come from the top, whichever way the output goes: the placer turns them around.
    resampler.y.set(y.begin, y.end, y.low, y.high, y.outputs, false);
    const Window window{resampler.x.begin(), resampler.y.begin(),
                        std::min(resampler.x.end(), x.high),
                        std::min(resampler.y.end(), y.high)};
    resampler.x.shift(-window.left);
    resampler.y.shift(-window.top);
    return window;
}

bool is_empty(const Placement& placement) { return placement.x.outputs == 0 || placement.y.outputs == 0; }

}  // namespace

Outcome SampleRunner::run(const Batch& batch, std::size_t i) {
    Outcome outcome;
    try {
        outcome = execute(batch, i);
    } catch (const std::bad_alloc&) {
        outcome = {Status::not_decodable, "no memory to decode it"};
    } catch (const std::exception& error) {
        message_ = error.what();
        outcome = {Status::read_error, message_.c_str()};
    }
    if (outcome.status != Status::ok && !batch.options.decode_only) {
        const Target target = batch.target(i);
        std::memset(target.out, 0, target.bytes);
    }
    return outcome;
}

Outcome SampleRunner::execute(const Batch& batch, std::size_t i) {
    const BatchOptions& options = batch.options;
    const int height = batch.samples.height[i], width = batch.samples.width[i];
    const Pixels& decoded = batch.decoded[i];
    const auto codec = static_cast<Codec>(batch.samples.codec[i]);
    Payload payload;
    if (decoded.data == nullptr) {
        const Outcome outcome = read(batch, i, payload);
        if (outcome.status != Status::ok) return outcome;
    } else if (decoded.height != height || decoded.width != width) {
        return {Status::size_mismatch, "the decoded image has another size than the index says"};
    }
    const bool jpeg = decoded.data == nullptr && codec == Codec::jpeg;
    const Orientation orientation = Orientation::exif(jpeg ? batch.samples.orientation[i] : 1);
    const Placement placement =
        place(batch.parameters.at(i), orientation, height, width, options.height, options.width);
    if (!jpeg && options.decode_only) return {};
    if (!options.decode_only) writer_.begin(batch.target(i), placement.dest);
    if (decoded.data != nullptr) {
        run_pixels(decoded.data, height, width, placement);
        return {};
    }
    if (codec == Codec::raw) {
        if (payload.size != static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3)
            return {Status::size_mismatch, "raw pixels must have height * width * 3 bytes"};
        run_pixels(payload.data, height, width, placement);
        return {};
    }
    if (!jpeg) return {Status::not_decodable, "the native engine decodes JPEG and raw pixels only"};
    const Outcome opened = open_jpeg(payload, options.max_pixels);
    if (opened.status != Status::ok) return opened;
    const bool swapped = orientation.transposed;
    if (jpeg_.height() != (swapped ? width : height) || jpeg_.width() != (swapped ? height : width))
        return {Status::size_mismatch, "the JPEG's header gives another size than the index"};
    return run_jpeg(placement, options.decode_only);
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

Outcome SampleRunner::open_jpeg(const Payload& payload, std::int64_t max_pixels) {
    if (!jpeg_.open(payload.data, payload.size)) return {jpeg_.status(), jpeg_.message()};
    if (static_cast<std::int64_t>(jpeg_.height()) * jpeg_.width() > max_pixels)
        return {Status::too_large, "the header gives more pixels than max_pixels"};
    return {};
}

Outcome SampleRunner::run_jpeg(const Placement& placement, bool decode_only) {
    if (is_empty(placement)) return {};
    Placement reduced = placement;
    int numerator = dct_numerator(placement);
    if (!reduced.x.reduce(numerator) || !reduced.y.reduce(numerator)) {
        reduced = placement;
        numerator = 8;
    }
    const Window window = window_of(resampler_, reduced);
    if (!jpeg_.start(window, numerator)) return {jpeg_.status(), jpeg_.message()};
    if (!decode_only) {
        resampler_.begin(placer_, window.bottom - window.top);
        placer_.begin(writer_, reduced);
    }
    for (int y = window.top; y < window.bottom;) {
        const std::uint8_t* rows[2];
        const int count = jpeg_.read(rows);
        if (count == 0) return {jpeg_.status(), jpeg_.message()};
        if (!decode_only)
            for (int row = 0; row < count; ++row) resampler_.push(rows[row]);
        y += count;
    }
    jpeg_.finish();
    if (!decode_only) placer_.finish();
    return {};
}

void SampleRunner::run_pixels(const std::uint8_t* pixels, int height, int width, const Placement& placement) {
    if (is_empty(placement)) return;
    const Window window = window_of(resampler_, placement);
    resampler_.begin(placer_, window.bottom - window.top);
    placer_.begin(writer_, placement);
    const std::size_t stride = static_cast<std::size_t>(width) * 3;
    const std::size_t bytes = static_cast<std::size_t>(window.right - window.left) * 3;
    if (last_row_.size() < bytes + kSlack) last_row_.resize(bytes + kSlack);
    const std::uint8_t* end = pixels + stride * static_cast<std::size_t>(height);
    for (int y = window.top; y < window.bottom; ++y) {
        const std::uint8_t* row =
            pixels + stride * static_cast<std::size_t>(y) + 3 * static_cast<std::size_t>(window.left);
        if (static_cast<std::size_t>(end - row) < bytes + kSlack) {  // kernels read on behind a row
            std::memcpy(last_row_.data(), row, bytes);
            row = last_row_.data();
        }
        resampler_.push(row);
    }
    placer_.finish();
}

}  // namespace stoker
