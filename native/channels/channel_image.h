// Crops, resizes and flips of images with any number of channels, of 8 or 16 bits or floats. native/resample is faster for
// RGB and grey of 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "channels/filter_weights.h"
#include "pixels/rectangle.h"
#include "resample/resize.h"

namespace stoker {

enum class PixelType { uint8, uint16, float32 };
// The type of an output's elements.
enum class ChannelOut { uint8, uint16, float16, bfloat16, float32 };

// (height, width, channels), C-contiguous.
struct ChannelImage {
    const void* data = nullptr;
    PixelType type = PixelType::uint8;
    int height = 0, width = 0, channels = 0;
};

// An output of the same channels: planes, or interleaved. Each level x becomes scale * x + shift of its channel.
struct ChannelTarget {
    void* out = nullptr;
    ChannelOut type = ChannelOut::float32;
    bool planar = true;
    int height = 0, width = 0;
    const float* scale = nullptr;
    const float* shift = nullptr;
    const float* fill = nullptr;
};

// Makes images one after the other, on one thread. A resampled image of 8 bits is rounded after each axis, as Pillow
// rounds it.
class ChannelResampler {
  public:
    // The parameters must lie within the image and the target.
    void run(const ChannelImage& image, const Parameters& parameters, const ChannelTarget& target);

  private:
    void resize_rows(const ChannelImage& image);
    template <class In>
    void resize(const ChannelImage& image, std::size_t i, float* line);
    template <class In>
    void store(const ChannelImage& image, const Parameters& parameters, const ChannelTarget& target);
    template <class In, class Out>
    void store(const ChannelImage& image, const Parameters& parameters, const ChannelTarget& target);

    FilterWeights x_, y_;
    int left_ = 0, top_ = 0, right_ = 0, bottom_ = 0;  // bounds of the pixels that the outputs read
    std::vector<float> rows_;    // of 8 bits, resized along the x axis
    std::vector<float> floats_;  // a row before it is resized along the x axis
    std::vector<float> line_;
};

}  // namespace stoker
