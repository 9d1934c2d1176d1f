// The execution of steps on an image, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pixels/planar_image.h"
#include "resample/nearest_sampler.h"
#include "steps/step.h"
#include "warp/warper.h"

namespace stoker {

// A lookup table of 256 values for each channel.
struct LookupTables {
    std::uint8_t channel[3][256];
};

// Executes steps, and keeps their buffers from one sample to the next.
class StepRunner {
  public:
    void run(const Steps& steps, std::size_t i, PlanarImage& image);

    // For steps: the image as the steps before have left it.
    PlanarImage& image();
    // For steps: a copy of image().
    const PlanarImage& copy();
    // For steps: replaces values by lookup tables. Tables of consecutive steps are composed, and applied once.
    void apply_lut(const LookupTables& tables);
    // For steps that contain steps.
    StepRunner& inner();
    Warper& warper() { return warper_; }
    NearestSampler& nearest_sampler() { return nearest_sampler_; }
    std::vector<float>& floats() { return floats_; }
    // For steps: image() as interleaved RGB, in a buffer that the step may change.
    std::vector<std::uint8_t>& interleaved();

  private:
    PlanarImage* image_ = nullptr;
    LookupTables tables_{};
    bool pending_ = false;  // tables_ are not applied yet
    PlanarImage copy_;
    Warper warper_;
    NearestSampler nearest_sampler_;
    std::vector<float> floats_;
    std::vector<std::uint8_t> interleaved_;
    std::unique_ptr<StepRunner> inner_;
};

}  // namespace stoker
