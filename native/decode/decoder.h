// The contract between a codec and the renderer: an image is opened, then read row by row as RGB.
//
// A new codec is a class of its own file and a row of the table in decode/codecs.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "decode/size_check.h"
#include "decode/status.h"
#include "kernels/kernels.h"
#include "pixels/rectangle.h"
#include "records/shards.h"

namespace stoker {

// The payload of one sample, with its size by the index and the most pixels that it may have.
struct EncodedImage {
    Payload payload;
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t max_pixels = 0;
};

// Decodes the images of one thread, one after the other. No method throws except for lack of memory. Where a
// method fails, failure() tells the reason, and the next open() starts afresh.
class Decoder {
  public:
    // The most rows that read() returns.
    static constexpr int kMaxRows = 2;

    virtual ~Decoder() = default;
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    // Reads the header and checks what can be checked without decoding. The payload must outlive the decoding.
    virtual bool open(const EncodedImage& image) = 0;
    // The size of the stored image, before any orientation is applied.
    virtual int height() const = 0;
    virtual int width() const = 0;
    // Whether the EXIF orientation of the sample is still to be applied to the rows.
    virtual bool stores_orientation() const = 0;
    // Whether start() can decode at 1/8, 2/8 and 4/8 of the size.
    virtual bool can_reduce() const = 0;

    // Starts decoding at `eighths`/8 of the size. The first row read will be window.top, the last
    // window.bottom - 1. Pixels do not depend on the window.
    virtual bool start(const Window& window, int eighths) = 0;
    // Points `rows` to the next rows, interleaved RGB from window.left on with kRowSlack bytes behind,
    // and returns their number; 0 for a failure. The pointers are valid until the next call.
    virtual int read(const std::uint8_t* rows[kMaxRows]) = 0;
    // Ends decoding, whether all rows were read or not.
    virtual void finish() = 0;

    const Outcome& failure() const { return failure_; }

  protected:
    Decoder() = default;

    Outcome failure_;
};

}  // namespace stoker
