#include "channels/mean_subtraction.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

// Four floats, because compilers do not vectorise a loop over three channels.
using Four [[gnu::vector_size(16)]] = float;
constexpr std::size_t kFour = 4;

Four four(const float* from) {
    Four values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

}  // namespace

void MeanSubtractor::run(const MeanLevels& mean, const Parameters& parameters, const float* scale, const MeanTarget& target) {
    const std::int32_t *crop = parameters.crop, *dest = parameters.dest;
    if (dest[2] == 0 || dest[3] == 0) return;
    x_.set(parameters.span(1), parameters.interpolation);
    y_.set(parameters.span(0), parameters.interpolation);
    const auto channels = static_cast<std::size_t>(mean.channels), width = x_.first.size();
    const std::size_t plane = static_cast<std::size_t>(target.height) * static_cast<std::size_t>(target.width);
    for (int& first : x_.first) first -= crop[1];  // the line begins with the crop
    const int left = parameters.flip[0] ? target.width - dest[1] - dest[3] : dest[1];
    for (int i = 0; i < dest[2]; ++i) {
        resize_columns(mean, crop, static_cast<std::size_t>(i));
        resize_row(scale, channels, parameters.flip[0]);
        const int y = parameters.flip[1] ? target.height - 1 - dest[0] - i : dest[0] + i;
        const std::size_t at = static_cast<std::size_t>(y) * static_cast<std::size_t>(target.width) + static_cast<std::size_t>(left);
        for (std::size_t c = 0; c < channels; ++c) {
            const float* from = row_.data() + c * width;
            const auto step = target.planar ? 1 : static_cast<std::size_t>(target.step);
            float* to = target.data + (target.planar ? c * plane + at : at * step + c);
            if (step == 1)
                for (std::size_t x = 0; x < width; ++x) to[x] -= from[x];
            else
                for (std::size_t x = 0; x < width; ++x) to[x * step] -= from[x];
        }
    }
}

// Resamples the crop of the mean along the y axis, for one row of the output.
void MeanSubtractor::resize_columns(const MeanLevels& mean, const std::int32_t* crop, std::size_t output) {
    const auto channels = static_cast<std::size_t>(mean.channels);
    const std::size_t stride = static_cast<std::size_t>(mean.width) * channels;
    const std::size_t length = static_cast<std::size_t>(crop[3]) * channels;
    line_.assign(length + kFour, 0.0F);
    const float* from = mean.data + static_cast<std::size_t>(y_.first[output]) * stride + static_cast<std::size_t>(crop[1]) * channels;
    const float* weights = y_.weights.data() + output * static_cast<std::size_t>(y_.taps);
    for (int t = 0; t < y_.count[output]; ++t, from += stride)
        for (std::size_t x = 0; x < length; ++x) line_[x] += weights[t] * from[x];
}

// Resamples the line along the x axis.
void MeanSubtractor::resize_row(const float* scale, std::size_t channels, bool reversed) {
    const std::size_t width = x_.first.size();
    row_.resize(width * channels);
    for (std::size_t i = 0; i < width; ++i) {
        const float* from = line_.data() + static_cast<std::size_t>(x_.first[i]) * channels;
        const float* weights = x_.weights.data() + i * static_cast<std::size_t>(x_.taps);
        float* to = row_.data() + (reversed ? width - 1 - i : i);
        for (std::size_t c = 0; c < channels; c += kFour) {
            Four sum{};
            for (int t = 0; t < x_.count[i]; ++t) sum += weights[t] * four(from + static_cast<std::size_t>(t) * channels + c);
            for (std::size_t k = c; k < std::min(c + kFour, channels); ++k) to[k * width] = scale[k] * sum[k - c];
        }
    }
}

}  // namespace stoker
