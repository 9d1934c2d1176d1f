// The decoder of every JPEG that libjpeg-turbo reads.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <jpeglib.h>

#include "decode/decoder.h"

namespace stoker {

// One libjpeg decompressor, which is used for one image after the other.
class TurboDecoder final : public Decoder {
  public:
    // Checks the header, the size and the end marker, without libjpeg.
    static CheckResult check(const EncodedImage& image);

    TurboDecoder();
    ~TurboDecoder() override;

    bool open(const EncodedImage& image) override;
    int height() const override { return static_cast<int>(decoder_.image_height); }
    int width() const override { return static_cast<int>(decoder_.image_width); }
    bool needs_orientation() const override { return true; }
    bool can_reduce() const override { return true; }
    bool start(const Window& window, int eighths) override;
    int read(const std::uint8_t* rows[kMaxRows]) override;
    void finish() override;

  private:
    static void on_error(j_common_ptr decoder);
    static void on_message(j_common_ptr decoder, int level);
    static void on_progress(j_common_ptr decoder);
    static boolean on_end(j_decompress_ptr decoder);
    static void on_skip(j_decompress_ptr decoder, long count);
    [[noreturn]] void give_up(Status status);
    [[noreturn]] void give_up(Status status, const char* reason);
    bool can_crop() const;
    bool set_columns();
    void to_rgb(std::uint8_t* row) const;

    jpeg_decompress_struct decoder_{};
    jpeg_error_mgr errors_{};
    jpeg_source_mgr source_{};
    jpeg_progress_mgr progress_{};
    std::jmp_buf jump_{};
    char message_[JMSG_LENGTH_MAX] = "";
    bool grey_ = false;
    Window window_{};
    int origin_ = 0;  // column of the first pixel of libjpeg's rows
    int pixels_ = 0;  // number of pixels in libjpeg's rows
    std::vector<std::uint8_t> rows_;
    std::size_t row_bytes_ = 0;
};

}  // namespace stoker
