#include "channels/channel_warp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "pixels/displacement.h"
#include "warp/warp_weights.h"

namespace stoker {
namespace {

// The weights of the source's pixels first, first + 1, ... along one axis of an output pixel.
struct AxisWeights {
    int first = 0;
    std::vector<double> weights;

    // Takes a triangle about `center` that reaches `support` to both sides, at the pixels [low, high). The weights of all
    // pixels, also of those outside, sum to 1.
    void set(double center, double support, int low, int high) {
        const double total = triangle_sum(center, support);
        first = static_cast<int>(std::clamp(std::floor(center - support), double(low), double(high)));
        const int last = static_cast<int>(std::clamp(std::ceil(center + support), double(first), double(high)));
        weights.resize(static_cast<std::size_t>(last - first));
        for (std::size_t t = 0; t < weights.size(); ++t)
            weights[t] = std::max(0.0, 1 - std::abs(first + static_cast<double>(t) + 0.5 - center) / support) / total;
    }
};

double rounded(double value, bool rounds) { return rounds ? std::floor(value + 0.5) : value; }

template <class In>
class Warp {
  public:
    Warp(const ChannelImage& image, const WarpMap& map, const float* fill)
        : image_(image), map_(map), fill_(fill), channels_(static_cast<std::size_t>(image.channels)), sums_(channels_) {}

    void run(Size size, bool picks, float* levels) {
        for (int y = 0; y < size.height; ++y)
            for (int x = 0; x < size.width; ++x, levels += channels_) {
                const SourcePoint point = map_.at(x + 0.5, y + 0.5);
                if (!point.visible)
                    std::copy_n(fill_, channels_, levels);
                else if (picks)
                    pick(point, levels);
                else
                    filter(point, levels);
            }
    }

  private:
    const In* pixel(int y, int x) const {
        const std::size_t at = static_cast<std::size_t>(y) * static_cast<std::size_t>(image_.width) + static_cast<std::size_t>(x);
        return static_cast<const In*>(image_.data) + at * channels_;
    }

    void pick(const SourcePoint& point, float* out) const {
        const Window& seen = map_.window();
        if (!(point.x >= seen.left && point.x < seen.right && point.y >= seen.top && point.y < seen.bottom)) {
            std::copy_n(fill_, channels_, out);
            return;
        }
        const In* from = pixel(static_cast<int>(point.y), static_cast<int>(point.x));
        for (std::size_t c = 0; c < channels_; ++c) out[c] = static_cast<float>(from[c]);
    }

    void filter(const SourcePoint& point, float* out) {
        x_.set(point.x, point.support_x, map_.window().left, map_.window().right);
        y_.set(point.y, point.support_y, map_.window().top, map_.window().bottom);
        std::fill(sums_.begin(), sums_.end(), 0.0);
        for (std::size_t i = 0; i < y_.weights.size(); ++i) {
            const In* from = pixel(y_.first + static_cast<int>(i), x_.first);
            for (const double across : x_.weights) {
                const double weight = y_.weights[i] * across;
                if (weight == 0) {  // so that a NaN reaches no other pixel
                    from += channels_;
                    continue;
                }
                for (std::size_t c = 0; c < channels_; ++c, ++from) sums_[c] += weight * (static_cast<double>(*from) - fill_[c]);
            }
        }
        constexpr bool rounds = sizeof(In) == 1;
        for (std::size_t c = 0; c < channels_; ++c) out[c] = static_cast<float>(rounded(fill_[c] + sums_[c], rounds));
    }

    const ChannelImage& image_;
    const WarpMap& map_;
    const float* fill_;
    std::size_t channels_;
    std::vector<double> sums_;
    AxisWeights x_, y_;
};

}  // namespace

void warp_channels(const ChannelImage& image, const WarpMap& map, Size size, bool picks, const float* fill, float* levels) {
    switch (image.type) {
        case PixelType::uint8: return Warp<std::uint8_t>(image, map, fill).run(size, picks, levels);
        case PixelType::uint16: return Warp<std::uint16_t>(image, map, fill).run(size, picks, levels);
        case PixelType::float32: return Warp<float>(image, map, fill).run(size, picks, levels);
    }
}

void displace_channels(float* levels, Size size, int channels, const Displacement& displacement, bool rounds,
                       const float* fill) {
    const int height = size.height, width = size.width;
    const std::size_t pixels = size.pixels();
    const auto line = static_cast<std::size_t>(channels);
    const std::vector<float> source(levels, levels + pixels * line);
    std::vector<double> field(2 * pixels);
    make_displacement(displacement.key, size, displacement.alpha, displacement.sigma, field.data());
    const auto at = [&](int y, int x) {
        const bool inside = y >= 0 && x >= 0 && y < height && x < width;
        return inside ? source.data() + (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) * line : fill;
    };
    const double middle = displacement.nearest ? 0.5 : 0;
    const double *down = field.data(), *across = down + pixels;
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x, ++down, ++across, levels += line) {
            const double row = std::clamp(y + *down, -1.0, static_cast<double>(height)) + middle;
            const double column = std::clamp(x + *across, -1.0, static_cast<double>(width)) + middle;
            const int top = static_cast<int>(std::floor(row)), left = static_cast<int>(std::floor(column));
            if (displacement.nearest) {
                std::copy_n(at(top, left), line, levels);
                continue;
            }
            const double below = row - top, right = column - left;
            const float *corners[] = {at(top, left), at(top, left + 1), at(top + 1, left), at(top + 1, left + 1)};
            for (std::size_t c = 0; c < line; ++c) {
                double upper = corners[0][c], lower = corners[2][c];
                upper += (corners[1][c] - upper) * right;
                lower += (corners[3][c] - lower) * right;
                levels[c] = static_cast<float>(rounded(upper + (lower - upper) * below, rounds));
            }
        }
}

}  // namespace stoker
