// The decoder of PNG, for all its kinds of pixels. It inflates the whole image, because libdeflate takes whole streams
// only, and undoes the filters that the window depends on.
#pragma once

#include <libdeflate.h>

#include <memory>
#include <vector>

#include "decode/decoder.h"
#include "decode/png/png_file.h"
#include "decode/png/unfilter.h"
#include "decode/stored_pixels.h"

namespace stoker {

// Takes the higher 8 of 16 bits, and ignores transparency, as formats/codecs/decode.py says.
class PngDecoder final : public Decoder {
  public:
    static CheckResult check(const EncodedImage& image);

    PngDecoder();
    bool open(const EncodedImage& image) override;
    int height() const override { return file_.height; }
    int width() const override { return file_.width; }
    bool needs_orientation() const override { return true; }
    bool can_reduce() const override { return false; }
    bool start(const Window& window, int eighths) override;
    int read(const std::uint8_t* rows[kMaxRows]) override;
    void finish() override {}
    // Returns the next row of the window as it is stored, from the left edge of the image on. It may be called after start(),
    // in place of read().
    const std::uint8_t* next_row();
    const png::PngFile& file() const { return file_; }

  private:
    bool inflate(std::size_t bytes);
    bool undo_filters();
    bool interlace();
    void to_rgb(const std::uint8_t* row, std::uint8_t* rgb) const;

    png::PngFile file_;
    const png::UndoFilters undo_filters_ = png::undo_filters();
    bool grey_ = false;
    Window window_{};
    int next_row_ = 0;
    std::vector<std::uint8_t> filtered_;  // the rows as they are stored, each with the number of its filter
    std::vector<std::uint8_t> scratch_;   // of undo_filters_
    std::vector<std::uint8_t> whole_;     // the rows of an interlaced image
    std::vector<std::uint8_t> rows_;      // of RGB
    std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor_;
};

// Decodes with the stored channels and bits, or with alpha; see DecodeStored. Grey of 16 bits keeps its bits; other images
// keep the higher 8. Pillow decodes PNGs with transparent colours (a tRNS chunk).
CheckResult decode_stored_png(const Payload& payload, const StoredRequest& request, StoredPixels& pixels);

}  // namespace stoker
