#include "decode/raw_decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "decode/codecs.h"
#include "pixels/grey.h"

namespace stoker {
namespace {

const RegisteredCodec registered({.codec = Codec::raw, .name = "raw pixels", .decoding = decoding<RawDecoder>()});

}  // namespace

CheckResult RawDecoder::check(const EncodedImage& image) {
    CheckResult size = check_size(image.height, image.width, image.height, image.width, image.max_pixels);
    if (!size.ok() || image.payload.size == static_cast<std::size_t>(3 * image.height * image.width))
        return size;
    return {Status::size_mismatch,
            std::to_string(image.payload.size) + " bytes for " + size_text(image.height, image.width)};
}

bool RawDecoder::open(const EncodedImage& image) {
    CheckResult result = check(image);
    message_ = std::move(result.reason);
    failure_ = {result.status, message_.c_str()};
    if (!result.ok()) return false;
    pixels_ = image.payload.data;
    grey_ = image.grey;
    height_ = static_cast<int>(image.height);
    width_ = static_cast<int>(image.width);
    return true;
}

bool RawDecoder::start(const Window& window, int) {
    window_ = window;
    next_row_ = window.top;
    return true;
}

int RawDecoder::read(const std::uint8_t* rows[kMaxRows]) {
    const std::size_t stride = 3 * static_cast<std::size_t>(width_);
    const std::size_t bytes = 3 * static_cast<std::size_t>(window_.right - window_.left);
    const std::uint8_t* end = pixels_ + stride * static_cast<std::size_t>(height_);
    const std::uint8_t* row = pixels_ + stride * static_cast<std::size_t>(next_row_) + 3 * window_.left;
    const int left = std::min(window_.bottom - next_row_, kMaxRows);
    int count = 0;
    for (; !grey_ && count < left && static_cast<std::size_t>(end - row) >= bytes + kRowSlack; row += stride) rows[count++] = row;
    if (count == 0) {
        if (last_row_.size() < bytes + kRowSlack) last_row_.resize(bytes + kRowSlack);
        if (grey_)
            to_grey(row, window_.right - window_.left, last_row_.data());
        else
            std::memcpy(last_row_.data(), row, bytes);
        rows[count++] = last_row_.data();
    }
    next_row_ += count;
    return count;
}

}  // namespace stoker
