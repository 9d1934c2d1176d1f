// One sample, from the bytes on disk to its place in the batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/codecs.h"
#include "engine/batch_work.h"
#include "engine/renderer.h"
#include "pixels/image_writer.h"
#include "pixels/planar_image.h"
#include "steps/step_runner.h"

namespace stoker {

// Everything that a thread needs to work on samples, kept from one to the next.
class SampleRunner {
  public:
    Outcome run(const BatchWork& work, std::size_t i);

  private:
    Outcome execute(const BatchWork& work, std::size_t i);
    Outcome open(const BatchWork& work, std::size_t i, EncodedImage& image, Decoder*& decoder);
    Outcome read(const BatchWork& work, std::size_t i, Payload& payload);
    Outcome outcome_of(CheckResult finding);
    RowSink& begin(const BatchWork& work, std::size_t i);
    void finish(const BatchWork& work, std::size_t i);

    Decoders decoders_;
    Renderer renderer_;
    ImageWriter writer_;
    PlanarImage image_;  // of a sample whose rows cannot be stored as they come
    PlanarSink image_sink_;
    StepRunner steps_;
    float color_[12] = {};
    std::vector<std::uint8_t> storage_;  // of a payload that is not mapped
    std::string message_;
    char fault_[1024] = "";
};

}  // namespace stoker
