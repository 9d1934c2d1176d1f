// The execution of one sample: from its payload to its image in the batch.
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

// The decoders, resamplers and buffers of one thread, which are used for one sample after the other.
class SampleRunner {
  public:
    Outcome run(const BatchWork& work, std::size_t i);

  private:
    Outcome execute(const BatchWork& work, std::size_t i);
    Outcome open(const BatchWork& work, std::size_t i, EncodedImage& image, Decoder*& decoder);
    Outcome read(const BatchWork& work, std::size_t i, EncodedImage& image);
    Outcome outcome_of(CheckResult result);
    RowSink& begin(const BatchWork& work, std::size_t i);
    void finish(const BatchWork& work, std::size_t i);

    Decoders decoders_;
    Renderer renderer_;
    ImageWriter writer_;
    PlanarImage image_;  // for samples that need a whole image
    PlanarSink image_sink_;
    StepRunner steps_;
    float color_[12] = {};
    std::vector<std::uint8_t> storage_;  // holds a payload that is not mapped
    std::string message_;
    char fault_[1024] = "";
};

}  // namespace stoker
