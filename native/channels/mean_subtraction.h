// The subtraction of a mean image from a finished image, under the geometry of that image.
#pragma once

#include <cstddef>
#include <vector>

#include "channels/filter_weights.h"
#include "resample/resize.h"

namespace stoker {

// A mean image: (height, width, channels) floats.
struct MeanLevels {
    const float* data = nullptr;
    int height = 0, width = 0, channels = 0;
};

// The image that it is subtracted from: planes, or pixels of `step` elements, the first of them the channels.
struct MeanTarget {
    float* data = nullptr;
    int height = 0, width = 0, step = 0;
    bool planar = true;
};

// Subtracts means on one thread. It resamples columns before rows, in floats, and rounds nothing.
class MeanSubtractor {
  public:
    // Subtracts `scale` times the mean, a number for each channel, within parameters.dest. The parameters must lie
    // within the mean and the target.
    void run(const MeanLevels& mean, const Parameters& parameters, const float* scale, const MeanTarget& target);

  private:
    void resize_columns(const MeanLevels& mean, const std::int32_t* crop, std::size_t output);
    void resize_row(const float* scale, std::size_t channels, bool reversed);

    FilterWeights x_, y_;
    std::vector<float> line_;  // one row of the output, in the columns of the mean
    std::vector<float> row_;   // the same in the columns of the output: planes of the channels
};

}  // namespace stoker
