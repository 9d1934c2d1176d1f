#include "decode/jpeg/jpeg_decoder.h"

#include <cstdlib>
#include <cstring>

#include "records/crc32c.h"

namespace stoker {

bool uses_own_jpeg_decoder() {
    static const bool own = [] {
        const char* wanted = std::getenv("STOKER_JPEG");
        if (wanted != nullptr && std::strcmp(wanted, "turbo") == 0) return false;
        return jpeg::has_vector_kernels() || (wanted != nullptr && std::strcmp(wanted, "stoker") == 0);
    }();
    return own;
}

bool JpegDecoder::open(const EncodedImage& image) {
    failure_ = {};
    image_ = image;
    own_ = uses_own_jpeg_decoder() && decoder_->open(image);
    return own_ || open_turbo();
}

bool JpegDecoder::open_turbo() {
    own_ = false;
    if (!image_.checked && crc32c(image_.payload.data, image_.payload.size) != image_.crc)
        return fail(Status::checksum_mismatch, kChecksumDiffers);
    image_.checked = true;
    if (turbo_.open(image_)) return true;
    failure_ = turbo_.failure();
    return false;
}

bool JpegDecoder::start_turbo() {
    if (turbo_.start(window_, eighths_)) return true;
    failure_ = turbo_.failure();
    return false;
}

bool JpegDecoder::start(const Window& window, int eighths) {
    window_ = window;
    eighths_ = eighths;
    if (own_ && decoder_->start(window, eighths)) return true;
    return (!own_ || open_turbo()) && start_turbo();
}

int JpegDecoder::read(const std::uint8_t* rows[kMaxRows]) {
    if (own_) {
        const int count = decoder_->read(rows);
        window_.top += count;
        if (count > 0) return count;
        if (!open_turbo() || !start_turbo()) return 0;
    }
    const int count = turbo_.read(rows);
    if (count == 0) failure_ = turbo_.failure();
    return count;
}

void JpegDecoder::finish() {
    if (!own_) turbo_.finish();
}

}  // namespace stoker
