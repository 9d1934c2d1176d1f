// Normal noise, as a function of a key and of a pixel; see stoker.augment.noise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// Quantiles of the normal distribution, from which the noise is drawn.
constexpr std::size_t kNoiseQuantiles = 1 << 16;

// Returns 64 random bits, number `index` of the sequence of a key (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
constexpr std::uint64_t splitmix(std::uint64_t key, std::uint64_t index) {
    std::uint64_t bits = key + (index + 1) * 0x9E3779B97F4A7C15;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
    return bits ^ bits >> 31;
}

struct Noise {
    const float* quantiles = nullptr;
    std::uint64_t key = 0;
    float mean[3] = {}, deviation[3] = {};

    // Computes the RGB values of a pixel; `pixel` counts along the rows of the image.
    void at(std::uint64_t pixel, float* rgb) const {
        const std::uint64_t bits = splitmix(key, pixel);
        for (int c = 0; c < 3; ++c) rgb[c] = quantiles[bits >> 16 * c & 0xFFFF] * deviation[c] + mean[c];
    }
};

}  // namespace stoker
