// Decodes a rectangle of a JPEG, as RGB, row by row.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <jpeglib.h>

#include "decode/status.h"
#include "kernels/kernels.h"

namespace stoker {

// A rectangle of columns and rows, in pixels of the stored image after DCT scaling.
struct Window {
    int left, top, right, bottom;
};

// One libjpeg decompressor, used again and again. No method throws; where one returns false, status() and
// message() say why, and the next open() starts afresh.
class JpegDecoder {
  public:
    JpegDecoder();
    ~JpegDecoder();
    JpegDecoder(const JpegDecoder&) = delete;
    JpegDecoder& operator=(const JpegDecoder&) = delete;

    // Reads the header. The bytes must outlive the decoding.
    bool open(const std::uint8_t* data, std::size_t size);
    int height() const { return static_cast<int>(decoder_.image_height); }
    int width() const { return static_cast<int>(decoder_.image_width); }

    // Starts decoding at numerator/8 of the size; the first row read will be window.top, the last
    // window.bottom - 1. Pixels are those of a decoding of the whole image, bit for bit.
    bool start(const Window& window, int numerator);
    // The next rows, each from window.left on, with kSlack bytes behind; 0 after an error. The pointers
    // are valid until the next call.
    int read(const std::uint8_t* rows[2]);
    // Ends decoding, early or not.
    void finish();

    Status status() const { return status_; }
    const char* message() const { return message_; }

  private:
    static void on_error(j_common_ptr decoder);
    static void on_message(j_common_ptr decoder, int level);
    static void on_progress(j_common_ptr decoder);
    static boolean on_end(j_decompress_ptr decoder);
    static void on_skip(j_decompress_ptr decoder, long count);
    [[noreturn]] void fail(Status status);
    bool ends_properly() const;
    bool can_crop() const;
    bool set_columns();
    void to_rgb(std::uint8_t* row) const;

    jpeg_decompress_struct decoder_{};
    jpeg_error_mgr errors_{};
    jpeg_source_mgr source_{};
    jpeg_progress_mgr progress_{};
    std::jmp_buf jump_{};
    Status status_ = Status::ok;
    char message_[JMSG_LENGTH_MAX] = "";
    Window window_{};
    int origin_ = 0;  // column of the first pixel that libjpeg gives
    int pixels_ = 0;  // that it gives in a row
    std::vector<std::uint8_t> rows_;
    std::size_t row_bytes_ = 0;
};

}  // namespace stoker
