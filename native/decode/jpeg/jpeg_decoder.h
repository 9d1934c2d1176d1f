// The decoder of JPEG: Stoker's own for most baseline images, libjpeg-turbo for all others.
#pragma once

#include <memory>

#include "decode/decoder.h"
#include "decode/jpeg/baseline/region_decoder.h"
#include "decode/jpeg/turbo_decoder.h"

namespace stoker {

// Whether Stoker's own decoder is used: by default, where it has vector code. For comparisons, STOKER_JPEG=turbo turns it
// off and STOKER_JPEG=stoker turns it on. The variable is read once.
bool uses_own_jpeg_decoder();

// libjpeg-turbo reports all errors: it decodes an image again from the row at which Stoker's decoder finds damage. It reads
// the whole image, so the whole payload is compared with its checksum first.
class JpegDecoder final : public Decoder {
  public:
    static CheckResult check(const EncodedImage& image) { return TurboDecoder::check(image); }

    bool open(const EncodedImage& image) override;
    int height() const override { return own_ ? decoder_->height() : turbo_.height(); }
    int width() const override { return own_ ? decoder_->width() : turbo_.width(); }
    bool needs_orientation() const override { return true; }
    bool can_reduce() const override { return true; }
    bool start(const Window& window, int eighths) override;
    int read(const std::uint8_t* rows[kMaxRows]) override;
    void finish() override;

  private:
    bool open_turbo();
    bool start_turbo();

    std::unique_ptr<jpeg::RegionDecoder> decoder_ = std::make_unique<jpeg::RegionDecoder>();
    TurboDecoder turbo_;
    bool own_ = false;
    EncodedImage image_;
    Window window_{};  // the rows that are left
    int eighths_ = 8;
};

}  // namespace stoker
