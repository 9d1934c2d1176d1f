#include "channels/channel_image.h"

#include <algorithm>

#include "kernels/elements.h"

namespace stoker {
namespace {

void put(float value, std::uint16_t& out) {
    out = static_cast<std::uint16_t>(std::clamp(value, 0.0F, 65535.0F) + 0.5F);
}

// Rounds levels of 8 bits in place. std::floor is a function call on the oldest x86-64.
void round_levels(float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(static_cast<int>(std::clamp(values[i], 0.0F, 255.0F) + 0.5F));
}

// Resizes one row of pixels. `fixed` is the number of channels, or 0 if it is known only at run time.
template <std::size_t fixed, class In>
void resize_row(const FilterWeights& filter, const In* row, std::size_t channels, float* out) {
    if (fixed > 0) channels = fixed;
    for (std::size_t i = 0; i < filter.first.size(); ++i, out += channels) {
        const In* pixel = row + static_cast<std::size_t>(filter.first[i]) * channels;
        const float* weights = filter.weights.data() + i * static_cast<std::size_t>(filter.taps);
        float sums[fixed > 0 ? fixed : 1] = {};
        float* sum = fixed > 0 ? sums : out;
        if (fixed == 0) std::fill_n(out, channels, 0.0F);
        for (int t = 0; t < filter.count[i]; ++t, pixel += channels)
            for (std::size_t c = 0; c < channels; ++c) sum[c] += weights[t] * static_cast<float>(pixel[c]);
        if (fixed > 0) std::copy_n(sums, channels, out);
    }
}

Span span_of(double begin, double end, int low, int size, int outputs) { return {begin, end, low, low + size, outputs}; }

}  // namespace

template <class In>
void ChannelResampler::resize_rows(const ChannelImage& image, int rows) {
    const auto channels = static_cast<std::size_t>(image.channels), outputs = x_.first.size();
    rows_.resize(static_cast<std::size_t>(rows) * outputs * channels);
    float* out = rows_.data();
    for (int y = 0; y < rows; ++y) {
        const In* row = static_cast<const In*>(image.data) +
                        static_cast<std::size_t>(top_ + y) * static_cast<std::size_t>(image.width) * channels;
        switch (channels) {
            case 1: resize_row<1>(x_, row, channels, out); break;
            case 3: resize_row<3>(x_, row, channels, out); break;
            case 4: resize_row<4>(x_, row, channels, out); break;
            default: resize_row<0>(x_, row, channels, out);
        }
        out += outputs * channels;
    }
    if (image.type == PixelType::uint8) round_levels(rows_.data(), rows_.size());
}

template <class Out>
void ChannelResampler::store(const ChannelImage& image, const Parameters& parameters, const ChannelTarget& target) {
    const std::int32_t* dest = parameters.dest;
    const auto channels = static_cast<std::size_t>(image.channels), width = static_cast<std::size_t>(target.width);
    const std::size_t line = static_cast<std::size_t>(dest[3]) * channels, row_size = width * channels;
    const std::size_t plane = width * static_cast<std::size_t>(target.height);
    line_.resize(row_size);
    auto* out = static_cast<Out*>(target.out);
    for (int y = 0; y < target.height; ++y) {
        for (std::size_t x = 0; x < width; ++x) std::copy_n(target.fill, channels, line_.data() + x * channels);
        if (y >= dest[0] && y < dest[0] + dest[2] && line > 0) {
            const auto i = static_cast<std::size_t>(y - dest[0]);
            float* values = line_.data() + static_cast<std::size_t>(dest[1]) * channels;
            std::fill_n(values, line, 0.0F);
            const float* weights = y_.weights.data() + i * static_cast<std::size_t>(y_.taps);
            const float* row = rows_.data() + static_cast<std::size_t>(y_.first[i] - top_) * line;
            for (int t = 0; t < y_.count[i]; ++t, row += line)
                for (std::size_t at = 0; at < line; ++at) values[at] += weights[t] * row[at];
            if (image.type == PixelType::uint8) round_levels(values, line);
        }
        const auto stored = static_cast<std::size_t>(parameters.flip[1] ? target.height - 1 - y : y);
        for (std::size_t x = 0; x < width; ++x) {
            const std::size_t at = stored * width + (parameters.flip[0] ? width - 1 - x : x);
            for (std::size_t c = 0; c < channels; ++c)
                put(line_[x * channels + c] * target.scale[c] + target.shift[c],
                    out[target.planar ? c * plane + at : at * channels + c]);
        }
    }
}

void ChannelResampler::run(const ChannelImage& image, const Parameters& parameters, const ChannelTarget& target) {
    const std::int32_t *crop = parameters.crop, *dest = parameters.dest;
    const double* region = parameters.region;
    x_.set(span_of(region[1], region[3], crop[1], crop[3], dest[3]), parameters.interpolation);
    y_.set(span_of(region[0], region[2], crop[0], crop[2], dest[2]), parameters.interpolation);
    int rows = 0;
    top_ = 0;
    if (dest[2] > 0 && dest[3] > 0) {
        top_ = *std::min_element(y_.first.begin(), y_.first.end());
        for (std::size_t i = 0; i < y_.first.size(); ++i) rows = std::max(rows, y_.first[i] + y_.count[i] - top_);
    }
    switch (image.type) {
        case PixelType::uint8: resize_rows<std::uint8_t>(image, rows); break;
        case PixelType::uint16: resize_rows<std::uint16_t>(image, rows); break;
        case PixelType::float32: resize_rows<float>(image, rows); break;
    }
    switch (target.type) {
        case ChannelOut::uint8: return store<std::uint8_t>(image, parameters, target);
        case ChannelOut::uint16: return store<std::uint16_t>(image, parameters, target);
        case ChannelOut::float16: return store<Half>(image, parameters, target);
        case ChannelOut::bfloat16: return store<BFloat16>(image, parameters, target);
        case ChannelOut::float32: return store<float>(image, parameters, target);
    }
}

}  // namespace stoker
