// The contract between a codec and the renderer: an image is opened, then read row by row as RGB.
//
// To add a codec, write one .cpp file with a class, a reader of headers, and a
// `const RegisteredCodec registered({...})` in its anonymous namespace (decode/codecs.h). CMake finds the file.
// decode/png is an example, in several files. A decoder may hold the whole image, as interlaced images require. The
// programs in tests/sanitize compile only decode, records, restarts and cpu, so a decoder uses no .cpp file of another
// folder. The number of the codec is that of formats/codecs/codec.py. Python reads from the table which codecs C++ decodes
// (DECODED_CODECS), and sends this decoder all payloads of the codec. So the decoder must read all variants.
// A decoder returns the pixels as they are stored; the renderer applies the EXIF orientation. It must read every
// file of the codec that Pillow reads, and return the pixels of decode_rgb in formats/codecs/decode.py. Pixels that
// are decoded at a reduced size (can_reduce) may differ: `exact=True` turns it off.
//
// The class also has a static `CheckResult check(const EncodedImage& image)`, which checks a payload without
// decoding it: its header (Status::not_decodable), its size after the EXIF orientation by check_size(), and
// whether its end is missing (Status::truncated). TurboDecoder::check is an example, with probe_as() and
// check_oriented_size() of decode/codecs.h.
//
// The calls for an image are open(), start(), read() until all rows of the window are read, finish(). If the
// window is empty, finish() follows open() directly. After a method has failed, the next call is open().
//
// Where a C library reports errors by longjmp(), as libjpeg does, no object with a destructor may come to life
// between setjmp() and longjmp(): its destructor would not run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "decode/checks/size_check.h"
#include "decode/status.h"
#include "kernels/kernels.h"
#include "pixels/rectangle.h"
#include "records/shards.h"
#include "restarts/bands.h"

namespace stoker {

// The payload of one sample, its size according to the index, and the maximum number of pixels.
struct EncodedImage {
    Payload payload;
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t max_pixels = 0;
    // The bands of a JPEG. Only a JPEG may arrive with `checked` false: its decoder compares the checksums of the bands
    // that it reads, or of the whole payload.
    Bands bands{};
    std::uint32_t crc = 0;
    bool checked = true;
    // Rows are grey, as three equal channels: luma, as a JPEG has it, or to_grey() (pixels/grey.h) of RGB.
    bool grey = false;
};

// Decodes images one after the other, on one thread. Methods throw std::bad_alloc only. After a method has
// failed, failure() returns the reason, and the next open() starts anew.
class Decoder {
  public:
    // The maximum number of rows that read() returns.
    static constexpr int kMaxRows = 16;

    virtual ~Decoder() = default;
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    // Reads the header, and checks what can be checked without decoding. The payload must outlive the decoding.
    // Afterwards the caller compares height() and width() with the index, and their product with max_pixels.
    virtual bool open(const EncodedImage& image) = 0;
    // The size of the stored image, before the EXIF orientation is applied.
    virtual int height() const = 0;
    virtual int width() const = 0;
    // Whether the caller must apply the EXIF orientation of the sample to the rows.
    virtual bool needs_orientation() const = 0;
    // Whether start() can decode at 1/8, 2/8 and 4/8 of the size. If not, `eighths` is always 8.
    virtual bool can_reduce() const = 0;

    // Starts decoding a window of the image, at `eighths`/8 of its size. The first row that read() returns is
    // window.top, the last is window.bottom - 1. The value of a pixel does not depend on the window.
    virtual bool start(const Window& window, int eighths) = 0;
    // Points `rows` to the next rows and returns their number, or 0 after a failure. A row is interleaved RGB
    // from window.left on, followed by kRowSlack readable bytes. It is valid until the next call.
    virtual int read(const std::uint8_t* rows[kMaxRows]) = 0;
    // Ends decoding, also before all rows are read.
    virtual void finish() = 0;

    const Outcome& failure() const { return failure_; }

  protected:
    Decoder() = default;

    bool fail(Status status, const char* message) {
        failure_ = {status, message};
        return false;
    }

    Outcome failure_;
};

}  // namespace stoker
