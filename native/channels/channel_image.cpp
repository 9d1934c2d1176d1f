#include "channels/channel_image.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "kernels/elements.h"

namespace stoker {
namespace {

constexpr std::size_t kSlack = 1;  // levels past the end of a row that resize_row() may read or write

void put(float value, std::uint16_t& out) {
    out = static_cast<std::uint16_t>(std::clamp(value, 0.0F, 65535.0F) + 0.5F);
}

// Rounds levels of 8 bits in place. std::floor is a function call on the oldest x86-64.
void round_levels(float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(static_cast<int>(std::clamp(values[i], 0.0F, 255.0F) + 0.5F));
}

// Resizes one row of pixels of one channel, of three or four, or of any number.
void resize_grey(const FilterWeights& filter, const float* row, float* out) {
    const float* weights = filter.weights.data();
    for (std::size_t i = 0; i < filter.first.size(); ++i, weights += filter.taps) {
        float sum = 0;
        for (int t = 0; t < filter.count[i]; ++t) sum += weights[t] * row[filter.first[i] + t];
        out[i] = sum;
    }
}

// Reads and writes four levels of a pixel. If the pixel has three, the fourth belongs to the next pixel.
template <int channels>
void resize_colors(const FilterWeights& filter, const float* row, float* out) {
    using Pixel [[gnu::vector_size(16)]] = float;
    const float* weights = filter.weights.data();
    for (std::size_t i = 0; i < filter.first.size(); ++i, weights += filter.taps, out += channels) {
        const float* from = row + filter.first[i] * channels;
        Pixel sum = {}, pixel;
        for (int t = 0; t < filter.count[i]; ++t, from += channels) {
            std::memcpy(&pixel, from, sizeof pixel);
            sum += weights[t] * pixel;
        }
        std::memcpy(out, &sum, sizeof sum);
    }
}

void resize_row(const FilterWeights& filter, const float* row, std::size_t channels, float* out) {
    if (channels == 1) return resize_grey(filter, row, out);
    if (channels == 3) return resize_colors<3>(filter, row, out);
    if (channels == 4) return resize_colors<4>(filter, row, out);
    const float* weights = filter.weights.data();
    for (std::size_t i = 0; i < filter.first.size(); ++i, weights += filter.taps, out += channels) {
        const float* pixel = row + static_cast<std::size_t>(filter.first[i]) * channels;
        std::fill_n(out, channels, 0.0F);
        for (int t = 0; t < filter.count[i]; ++t, pixel += channels)
            for (std::size_t c = 0; c < channels; ++c) out[c] += weights[t] * pixel[c];
    }
}

// Sums rows of `count` elements, `stride` elements apart, each times its weight.
template <class In>
void sum_rows(const In* row, std::size_t stride, const float* weights, int taps, std::size_t count, float* __restrict out) {
    for (std::size_t at = 0; at < count; ++at) out[at] = weights[0] * static_cast<float>(row[at]);
    for (int t = 1; t < taps; ++t) {
        row += stride;
        for (std::size_t at = 0; at < count; ++at) out[at] += weights[t] * static_cast<float>(row[at]);
    }
}

// Stores a row of pixels; see ChannelTarget. `plane` is the distance of channels in `out`, 0 for interleaved ones.
template <std::size_t fixed, class Out>
void store_row(const float* row, std::size_t width, std::size_t channels, const ChannelTarget& target, std::size_t plane,
               Out* __restrict out) {
    if (fixed > 0) channels = fixed;
    const std::size_t step = plane > 0 ? 1 : channels;
    for (std::size_t c = 0; c < channels; ++c) {
        const float scale = target.scale[c], shift = target.shift[c];
        Out* to = out + (plane > 0 ? c * plane : c);
        for (std::size_t x = 0; x < width; ++x) put(row[x * channels + c] * scale + shift, to[x * step]);
    }
}

}  // namespace

// Rows of 8 bits, whose sums are rounded after each axis.
void ChannelResampler::resize_rows(const ChannelImage& image) {
    const auto channels = static_cast<std::size_t>(image.channels);
    const std::size_t line = x_.first.size() * channels, stride = static_cast<std::size_t>(image.width) * channels;
    const std::size_t levels = static_cast<std::size_t>(bottom_ - top_) * line;
    rows_.resize(levels + kSlack);
    floats_.resize(stride + kSlack);
    const auto* row = static_cast<const std::uint8_t*>(image.data) + static_cast<std::size_t>(top_) * stride;
    for (std::size_t at = 0; at < levels; at += line, row += stride) {
        for (auto x = static_cast<std::size_t>(left_) * channels; x < static_cast<std::size_t>(right_) * channels; ++x)
            floats_[x] = static_cast<float>(row[x]);
        resize_row(x_, floats_.data(), channels, rows_.data() + at);
    }
    round_levels(rows_.data(), levels);
}

// Writes one row of the resized image into `line`.
template <class In>
void ChannelResampler::resize(const ChannelImage& image, std::size_t i, float* line) {
    const auto channels = static_cast<std::size_t>(image.channels);
    const float* weights = y_.weights.data() + i * static_cast<std::size_t>(y_.taps);
    if constexpr (sizeof(In) == 1) {
        const std::size_t count = x_.first.size() * channels;
        const float* rows = rows_.data() + static_cast<std::size_t>(y_.first[i] - top_) * count;
        sum_rows(rows, count, weights, y_.count[i], count, line);
        return round_levels(line, count);
    } else {
        // Along y first: a step takes as many elements as a register holds, and fewer rows remain for x.
        const std::size_t stride = static_cast<std::size_t>(image.width) * channels, skipped = static_cast<std::size_t>(left_) * channels;
        const std::size_t count = static_cast<std::size_t>(right_ - left_) * channels;
        const In* row = static_cast<const In*>(image.data) + static_cast<std::size_t>(y_.first[i]) * stride + skipped;
        floats_.resize(skipped + count + kSlack);
        sum_rows(row, stride, weights, y_.count[i], count, floats_.data() + skipped);
        resize_row(x_, floats_.data(), channels, line);
    }
}

template <class In, class Out>
void ChannelResampler::store(const ChannelImage& image, const Parameters& parameters, const ChannelTarget& target) {
    const std::int32_t* dest = parameters.dest;
    const auto channels = static_cast<std::size_t>(image.channels), width = static_cast<std::size_t>(target.width);
    const std::size_t pixels = width * static_cast<std::size_t>(target.height);
    line_.resize(width * channels + kSlack);
    for (int y = 0; y < target.height; ++y) {
        const bool seen = y >= dest[0] && y < dest[0] + dest[2] && dest[3] > 0;
        if (!seen || dest[3] < target.width)
            for (std::size_t x = 0; x < width; ++x) std::copy_n(target.fill, channels, line_.data() + x * channels);
        if (seen) resize<In>(image, static_cast<std::size_t>(y - dest[0]), line_.data() + static_cast<std::size_t>(dest[1]) * channels);
        if (parameters.flip[0])
            for (std::size_t x = 0; x < width / 2; ++x)
                std::swap_ranges(line_.data() + x * channels, line_.data() + (x + 1) * channels, line_.data() + (width - 1 - x) * channels);
        const auto to = static_cast<std::size_t>(parameters.flip[1] ? target.height - 1 - y : y) * width;
        Out* out = static_cast<Out*>(target.out) + (target.planar ? to : to * channels);
        const std::size_t plane = target.planar ? pixels : 0;
        switch (channels) {
            case 1: store_row<1>(line_.data(), width, channels, target, plane, out); break;
            case 4: store_row<4>(line_.data(), width, channels, target, plane, out); break;
            default: store_row<0>(line_.data(), width, channels, target, plane, out);
        }
    }
}

template <class In>
void ChannelResampler::store(const ChannelImage& image, const Parameters& parameters, const ChannelTarget& target) {
    switch (target.type) {
        case ChannelOut::uint8: return store<In, std::uint8_t>(image, parameters, target);
        case ChannelOut::uint16: return store<In, std::uint16_t>(image, parameters, target);
        case ChannelOut::float16: return store<In, Half>(image, parameters, target);
        case ChannelOut::bfloat16: return store<In, BFloat16>(image, parameters, target);
        case ChannelOut::float32: return store<In, float>(image, parameters, target);
    }
}

void ChannelResampler::run(const ChannelImage& image, const Parameters& parameters, const ChannelTarget& target) {
    const std::int32_t* dest = parameters.dest;
    x_.set(parameters.span(1), parameters.interpolation);
    y_.set(parameters.span(0), parameters.interpolation);
    if (dest[2] > 0 && dest[3] > 0) {
        std::tie(left_, right_) = x_.reach();
        std::tie(top_, bottom_) = y_.reach();
        if (image.type == PixelType::uint8) resize_rows(image);
    }
    switch (image.type) {
        case PixelType::uint8: return store<std::uint8_t>(image, parameters, target);
        case PixelType::uint16: return store<std::uint16_t>(image, parameters, target);
        case PixelType::float32: return store<float>(image, parameters, target);
    }
}

}  // namespace stoker
