#include "pixels/displacement.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

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

// Returns the place at `at` of an axis that is continued by reflection about its first and last place.
int reflect(int at, int size) {
    if (size == 1) return 0;
    const int period = 2 * (size - 1);
    const int within = (at % period + period) % period;
    return std::min(within, period - within);
}

std::uint64_t splitmix(std::uint64_t key, std::uint64_t place) {
    std::uint64_t bits = key + (place + 1) * 0x9E3779B97F4A7C15;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
    return bits ^ bits >> 31;
}

// Smooths `noise` along y, and then along x into `field`. All sums are exact, so that their order does not matter.
void smooth(const std::vector<double>& noise, int height, int width, const std::vector<double>& down,
            const std::vector<double>& across, double factor, double* field) {
    const int margin = static_cast<int>(across.size()) - 1;
    const auto columns = static_cast<std::size_t>(width);
    std::vector<double> line(columns + 2 * static_cast<std::size_t>(margin));
    double* inner = line.data() + margin;
    const auto row = [&](int y) { return noise.data() + static_cast<std::size_t>(reflect(y, height)) * columns; };
    for (int y = 0; y < height; ++y, field += width) {
        const double* at = row(y);
        for (int x = 0; x < width; ++x) inner[x] = at[x] * down[0];
        for (int d = 1; d < static_cast<int>(down.size()); ++d) {
            const double *above = row(y - d), *below = row(y + d), weight = down[static_cast<std::size_t>(d)];
            for (int x = 0; x < width; ++x) inner[x] += (above[x] + below[x]) * weight;
        }
        for (int x = 1; x <= margin; ++x) {
            inner[-x] = inner[reflect(-x, width)];
            inner[width - 1 + x] = inner[reflect(width - 1 + x, width)];
        }
        for (int x = 0; x < width; ++x) field[x] = inner[x] * across[0];
        for (int d = 1; d <= margin; ++d) {
            const double weight = across[static_cast<std::size_t>(d)];
            for (int x = 0; x < width; ++x) field[x] += (inner[x - d] + inner[x + d]) * weight;
        }
        for (int x = 0; x < width; ++x) field[x] *= factor;
    }
}

}  // namespace

void make_displacement(std::uint64_t key, int height, int width, const double* alpha, const double* sigma,
                       double* field) {
    const auto pixels = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    const std::vector<double> across = half_gaussian(sigma[0]), down = half_gaussian(sigma[1]);
    const double factors[2] = {alpha[1] * height / (2.0 * width), alpha[0] * width / (2.0 * height)};
    std::vector<double> noise(pixels);
    for (std::size_t axis = 0; axis < 2; ++axis) {
        for (std::size_t p = 0; p < pixels; ++p)
            noise[p] = 2.0 * static_cast<double>(splitmix(key, p) >> (axis == 0 ? 16 : 0) & 0xFFFF) + (1 - kOne);
        smooth(noise, height, width, down, across, factors[axis] * 0x1p-48, field + axis * pixels);
    }
}

}  // namespace stoker
