// The decoder of WebP, with libwebp: lossy or lossless, with or without alpha, and the first image of an animation.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/decoder.h"
#include "decode/webp/webp_file.h"

namespace stoker {

// Decodes the part of the image in the window, and the rows above it, from which it is predicted. Transparency is
// ignored, as formats/codecs/decode.py says. Pixels that the first image of an animation does not cover are black.
class WebpDecoder final : public Decoder {
  public:
    static CheckResult check(const EncodedImage& image);

    bool open(const EncodedImage& image) override;
    int height() const override { return file_.height(); }
    int width() const override { return file_.width(); }
    bool needs_orientation() const override { return true; }
    bool can_reduce() const override { return false; }
    bool start(const Window& window, int) override { return decode(window, 3); }
    int read(const std::uint8_t* rows[kMaxRows]) override;
    void finish() override {}
    // Decodes to RGB, or to four channels with alpha. It replaces start(), and next_row() replaces read().
    bool decode(const Window& window, int channels);
    std::uint8_t* next_row();
    const webp::WebpFile& file() const { return file_; }

  private:
    bool decode_part(const Window& part);
    void paste(const Window& part);

    webp::WebpFile file_;
    bool grey_ = false;
    Window window_{};
    int next_row_ = 0;
    std::size_t channels_ = 3;
    std::size_t stride_ = 0;            // bytes of a row
    std::vector<std::uint8_t> pixels_;  // the window and a margin
    std::uint8_t* first_ = nullptr;     // the first pixel of the next row
};

}  // namespace stoker
