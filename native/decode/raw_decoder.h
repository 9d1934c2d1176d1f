// The decoder of raw RGB pixels: of payloads that hold pixels, and of images that Python has decoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/decoder.h"

namespace stoker {

// Returns rows without a copy, except for grey rows, and for rows at the end of the pixels, which are not followed by
// kRowSlack bytes.
class RawDecoder final : public Decoder {
  public:
    // Checks the size, and that each pixel has three bytes.
    static CheckResult check(const EncodedImage& image);

    bool open(const EncodedImage& image) override;
    int height() const override { return height_; }
    int width() const override { return width_; }
    bool needs_orientation() const override { return false; }
    bool can_reduce() const override { return false; }
    bool start(const Window& window, int eighths) override;
    int read(const std::uint8_t* rows[kMaxRows]) override;
    void finish() override {}

  private:
    const std::uint8_t* pixels_ = nullptr;
    int height_ = 0;
    int width_ = 0;
    Window window_{};
    int next_row_ = 0;
    bool grey_ = false;
    std::vector<std::uint8_t> last_row_;
    std::string message_;
};

}  // namespace stoker
