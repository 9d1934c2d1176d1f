// One sample, from the bytes on disk to its place in the batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "batch.h"
#include "image_writer.h"
#include "jpeg_decoder.h"
#include "placement.h"
#include "resampler.h"

namespace stoker {

// What became of a sample; `message` is for people, and valid until the runner's next sample.
struct Outcome {
    Status status = Status::ok;
    const char* message = "";
};

// Turns decoded rows into rows of a writer: mirrored, or transposed by way of a buffer.
class Placer final : public RowSink {
  public:
    void begin(ImageWriter& writer, const Placement& placement);
    void row(int y, const std::uint8_t* planes, int plane) override;
    void finish();

  private:
    ImageWriter* writer_ = nullptr;
    bool transposed_ = false;
    bool reversed_ = false;
    int rows_ = 0;
    int columns_ = 0;
    int plane_ = 0;
    std::vector<std::uint8_t> picture_;  // [column][channel][row] of a transposed one
};

// Everything that a thread needs to work on samples, kept from one to the next.
class SampleRunner {
  public:
    Outcome run(const Batch& batch, std::size_t i);

    // Decode the JPEG that open_jpeg() opened, resample it as placed, and write it.
    Outcome run_jpeg(const Placement& placement, bool decode_only);
    Outcome open_jpeg(const Payload& payload, std::int64_t max_pixels);
    const JpegDecoder& jpeg() const { return jpeg_; }
    // The same with pixels in memory; `height` and `width` are those of the stored image.
    void run_pixels(const std::uint8_t* pixels, int height, int width, const Placement& placement);
    ImageWriter& writer() { return writer_; }

  private:
    Outcome execute(const Batch& batch, std::size_t i);
    Outcome read(const Batch& batch, std::size_t i, Payload& payload);

    JpegDecoder jpeg_;
    Resampler resampler_;
    ImageWriter writer_;
    Placer placer_;
    std::vector<std::uint8_t> storage_;  // of a payload that is not mapped
    std::vector<std::uint8_t> last_row_;
    std::string message_;
};

}  // namespace stoker
