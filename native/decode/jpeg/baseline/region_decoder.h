// The decoder of a region of a baseline JPEG. JpegDecoder uses it where it can, and libjpeg-turbo otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "decode/decoder.h"
#include "decode/jpeg/baseline/frame.h"
#include "decode/jpeg/kernels/jpeg_kernels.h"
#include "decode/jpeg/baseline/plane.h"
#include "decode/jpeg/baseline/scan_reader.h"
#include "pixels/aligned_bytes.h"
#include "pixels/rectangle.h"

namespace stoker::jpeg {

// Pixels are those of libjpeg-turbo's default decoding of the whole image. Memory is bounded by the width of the image,
// and is kept for the next image.
class RegionDecoder {
  public:
    // Returns false if libjpeg-turbo must decode the image, or if the checksum of unchecked headers differs. The payload must
    // outlive the decoding.
    bool open(const EncodedImage& image);
    int height() const { return frame_.height; }
    int width() const { return frame_.width; }
    // As Decoder::start. Of an image with bands, it reads only those of the window. Returns false if the checksum of an
    // unchecked band differs.
    bool start(const Window& window, int eighths);
    // As Decoder::read; returns 0 if the data is damaged.
    int read(const std::uint8_t* rows[Decoder::kMaxRows]);

  private:
    // A block of an MCU: where its samples go in the first MCU, and how far further in the next.
    struct BlockTarget {
        int row, index, component, step;
        std::uint8_t* samples;
    };

    // The number of components that become pixels: luma comes first, and grey needs no other.
    int stored() const { return grey_ ? 1 : frame_.components; }
    void set_planes(int eighths);
    void set_rows();
    bool fits_bands() const;
    bool seek();
    bool decode_mcu_rows();
    void set_targets(int mcu_rows);
    void transform(int mcu, int mcus);
    const std::uint8_t* chroma_row(int component, int y);
    void write_row(int y, std::uint8_t* rgb);

    Payload payload_;
    Bands bands_;
    bool checked_ = true;
    bool grey_ = false;
    Frame frame_;
    ScanReader reader_;
    Window window_{};
    std::array<Plane, kMaxComponents> planes_;
    bool triangle_ = true;  // triangle filters, or repeated samples
    bool context_ = false;  // rows of chroma depend on the rows above and below
    int first_mcu_ = 0, last_mcu_ = 0;  // the columns of MCUs [first, last) that are stored
    int mcu_row_ = 0, end_mcu_row_ = 0;  // the next MCU row to decode, and the one after the last
    int ready_ = 0;                     // rows of the image before this one can be written
    int next_row_ = 0;
    AlignedBytes rows_;  // of RGB, then one upsampled row of Cb and of Cr
    std::size_t row_bytes_ = 0, upsampled_bytes_ = 0;
    std::array<BlockTarget, kMaxRowsAtOnce * kMaxBlocks> targets_{};  // of the current MCU rows
    int targets_used_ = 0;
};

}  // namespace stoker::jpeg
