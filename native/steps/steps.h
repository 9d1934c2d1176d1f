// What happens to the pixels of a finished image, one step after the other; see stoker.augment.steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pixels/planar_image.h"
#include "resample/nearest_sampler.h"
#include "warp/warper.h"

namespace stoker {

class StepRunner;

// One step of a batch. The columns belong to the caller and have a row a sample.
class Step {
  public:
    explicit Step(const bool* where) : where_(where) {}
    virtual ~Step() = default;
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

    bool applies(std::size_t i) const { return where_[i]; }
    // Where applies(i).
    virtual void run(std::size_t i, StepRunner& runner) const = 0;

  private:
    const bool* where_;
};

using Steps = std::vector<std::unique_ptr<const Step>>;

// 256 levels a channel.
struct LookupTables {
    std::uint8_t level[3][256];
};

// Executes steps on a image, and keeps what they need in between from one sample to the next.
class StepRunner {
  public:
    void run(const Steps& steps, std::size_t i, PlanarImage& image);

    // For steps: the picture as it is by now.
    PlanarImage& image();
    // For steps: replace levels, together with what other steps replace directly before or after.
    void apply_lut(const LookupTables& tables);
    // For steps: the picture as it is by now, apart from it.
    const PlanarImage& copy();
    StepRunner& inner();
    Warper& warper() { return warper_; }
    NearestSampler& nearest_sampler() { return nearest_sampler_; }
    std::vector<float>& floats() { return floats_; }

  private:
    PlanarImage* image_ = nullptr;
    LookupTables tables_{};
    bool pending_ = false;  // whether tables_ are yet to be applied
    PlanarImage copy_;
    Warper warper_;
    NearestSampler nearest_sampler_;
    std::vector<float> floats_;
    std::unique_ptr<StepRunner> inner_;  // for steps that contain steps
};

// Adds `mean`, 3x3, times the mean RGB of an image to the constant column of `color`, 3x4.
void add_mean(float* color, const float* mean, const double* rgb);

std::unique_ptr<Step> make_affine(const bool* where, const float* color, const float* mean);
std::unique_ptr<Step> make_table(const bool* where, const std::uint8_t* levels);
std::unique_ptr<Step> make_posterize(const bool* where, const std::uint8_t* bits);
std::unique_ptr<Step> make_solarize(const bool* where, const std::int16_t* threshold);
std::unique_ptr<Step> make_autocontrast(const bool* where);
std::unique_ptr<Step> make_equalize(const bool* where);
std::unique_ptr<Step> make_sharpen(const bool* where, const float* factor);
// An odd number of taps along each axis; sigma has two rows a sample, y and x.
std::unique_ptr<Step> make_blur(const bool* where, int taps_y, int taps_x, const float* sigma);
std::unique_ptr<Step> make_shift(const bool* where, const double* matrix, const std::uint8_t fill[3], bool nearest);
// A weight for the image, then one for each chain.
std::unique_ptr<Step> make_mix(const bool* where, const float* weights, std::vector<Steps> chains);

}  // namespace stoker
