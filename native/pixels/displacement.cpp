#include "pixels/displacement.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/steps/step_kernels.h"
#include "pixels/noise.h"

namespace stoker {
namespace {

constexpr double kOne = 1 << 16;

// Returns the right half of the Gaussian, its centre first, in multiples of 2^-16.
std::vector<double> half_gaussian(double sigma) {
    const int half = (static_cast<int>(8 * sigma + 1) | 1) / 2;
    std::vector<double> weights(static_cast<std::size_t>(half) + 1, 1.0);
    double sum = 1;
    for (int d = 1; d <= half; ++d) {
        const double distance = d / sigma;
        sum += 2 * (weights[static_cast<std::size_t>(d)] = std::exp(-0.5 * (distance * distance)));
    }
    double rest = kOne;
    for (std::size_t d = 1; d < weights.size(); ++d) {
        weights[d] = std::nearbyint(weights[d] / sum * kOne);
        rest -= 2 * weights[d];
    }
    weights[0] = rest;
    return weights;
}

// Returns the number of doubles that the kernel reads or writes for `count` of them.
std::size_t padded(int count) { return (static_cast<std::size_t>(count) + kDoubles - 1) / kDoubles * kDoubles; }

// Smooths an image of rows of doubles along y, and then along x. All sums are exact, so that their order does not matter.
class Smoothing {
  public:
    Smoothing(Size size, const double* sigma)
        : size_(size), across_(half_gaussian(sigma[0])), down_(half_gaussian(sigma[1])),
          line_(2 * across_.size() + padded(size.width)), out_(padded(size.width)),
          rows_(2 * std::max(across_.size(), down_.size())) {}

    // Rows of `noise` lie padded(width) apart. Writes `field` without gaps, times `factor`.
    void run(const double* noise, double factor, double* field) {
        const int width = size_.width, reach = static_cast<int>(across_.size()) - 1;
        double* inner = line_.data() + reach;
        const auto row = [&](int y) { return noise + static_cast<std::size_t>(reflect(y, size_.height)) * padded(width); };
        for (int y = 0; y < size_.height; ++y, field += width) {
            sum(down_, [&](int d) { return row(y + d); }, inner);
            for (int x = 1; x <= reach; ++x) inner[-x] = inner[reflect(-x, width)];
            for (int x = 0; x < reach; ++x) inner[width + x] = inner[reflect(width + x, width)];
            sum(across_, [&](int d) { return inner + d; }, out_.data());
            for (int x = 0; x < width; ++x) field[x] = out_[static_cast<std::size_t>(x)] * factor;
        }
    }

  private:
    // The weighted sum of the rows row(-reach) to row(reach).
    template <class Row>
    void sum(const std::vector<double>& weights, Row row, double* out) {
        const int reach = static_cast<int>(weights.size()) - 1;
        rows_[0] = row(0);
        for (int d = 1; d <= reach; ++d) {
            rows_[static_cast<std::size_t>(2 * d - 1)] = row(-d);
            rows_[static_cast<std::size_t>(2 * d)] = row(d);
        }
        step_kernels().sum_pairs(rows_.data(), weights.data(), reach, size_.width, out);
    }

    Size size_;
    std::vector<double> across_, down_;
    std::vector<double> line_, out_;
    std::vector<const double*> rows_;
};

}  // namespace

void make_displacement(std::uint64_t key, Size size, const double* alpha, const double* sigma, double* field) {
    const int width = size.width;
    const std::size_t line = padded(width), plane = line * static_cast<std::size_t>(size.height);
    static thread_local std::vector<double> noise;  // new pages cost more than writing them
    if (noise.size() < 2 * plane) noise.resize(2 * plane);
    std::uint64_t pixel = 0;
    for (double *down = noise.data(), *end = down + plane; down < end; down += line)
        for (double* at = down; at < down + width; ++at, ++pixel) {
            const std::uint64_t bits = splitmix(key, pixel);
            at[0] = 2.0 * static_cast<double>(bits >> 16 & 0xFFFF) + (1 - kOne);
            at[plane] = 2.0 * static_cast<double>(bits & 0xFFFF) + (1 - kOne);
        }
    Smoothing smoothing(size, sigma);
    smoothing.run(noise.data(), alpha[1] / 2 * 0x1p-48, field);
    smoothing.run(noise.data() + plane, alpha[0] / 2 * 0x1p-48, field + size.pixels());
}

}  // namespace stoker
