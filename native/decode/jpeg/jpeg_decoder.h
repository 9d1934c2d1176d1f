// The decoder of JPEG: Stoker's own for most baseline images, libjpeg-turbo for all others.
#pragma once

#include <memory>

#include "decode/decoder.h"
#include "decode/jpeg/baseline/region_decoder.h"
#include "decode/jpeg/turbo_decoder.h"

namespace stoker {

// Whether Stoker's own decoder is used: where it has vector code, unless STOKER_JPEG says `turbo`, or `stoker` for its
// use everywhere. The variable is read once. It is for comparisons.
bool uses_own_jpeg_decoder();

// Errors are libjpeg-turbo's: it decodes an image again from the row at which Stoker's decoder finds damage. It looks
// at all of an image, and so the whole payload is compared with its checksum before.
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
