// The execution of one sample: from its payload to its images in the batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "decode/codecs.h"
#include "decode/guard.h"
#include "engine/batch_work.h"
#include "engine/composition/kept_images.h"
#include "engine/composition/part_sink.h"
#include "engine/images/image_runner.h"

namespace stoker {

// The decoders, and the runners of images, of one thread, which are used for one sample after the other.
class SampleRunner {
  public:
    // Images whose last steps take several of them wait until finish_waiting().
    Outcome run(const BatchWork& work, std::size_t i);
    Outcome finish_waiting();
    // Draws sample `i` on an image that shows several samples.
    Outcome render(const BatchWork& work, std::size_t i, PlanarImage& image, PartSink& sink);

  private:
    Outcome execute(const BatchWork& work, std::size_t i);
    Outcome open_checked(const BatchWork& work, std::size_t i, Decoder*& decoder, Orientation& orientation);
    Outcome open(const BatchWork& work, std::size_t i, EncodedImage& image, Decoder*& decoder);
    Outcome read(const BatchWork& work, std::size_t i, EncodedImage& image);
    Outcome outcome_of(CheckResult result);
    int set_images(const BatchWork& work, std::size_t i, Orientation orientation);
    Outcome decode(Decoder& decoder, int eighths, bool decode_only);
    Outcome decode_whole(Decoder& decoder, int eighths, KeptImage& image);

    Decoders decoders_;
    std::vector<std::unique_ptr<ImageRunner>> runners_;  // kept; the first image_count_ are those of the sample
    std::size_t image_count_ = 0;
    Renderer renderer_;  // of parts of images
    WaitingImages waiting_;
    ImageFinisher finisher_;  // of images that waited
    std::vector<std::uint8_t> storage_;  // holds a payload that is not mapped
    std::string message_;
    Guard guard_;
};

}  // namespace stoker
