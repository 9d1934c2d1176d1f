// The loops between three planes and interleaved RGB, for rows of uint8. A file of each instruction set includes this
// one; see store_kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace stoker {
namespace {

#if defined(__AVX2__)
constexpr int kShuffledPixels = 16;  // their RGB is three vectors of 16 bytes

// Where the bytes of a vector come from in another one, for each channel and each third of the RGB; -1 makes a zero.
struct ShuffleMasks {
    alignas(16) std::int8_t from[3][3][16];
};

constexpr ShuffleMasks masks_to_rgb() {
    ShuffleMasks masks{};
    for (int channel = 0; channel < 3; ++channel)
        for (int at = 0; at < 48; ++at)
            masks.from[channel][at / 16][at % 16] = static_cast<std::int8_t>(at % 3 == channel ? at / 3 : -1);
    return masks;
}

constexpr ShuffleMasks masks_to_planes() {
    ShuffleMasks masks{};
    for (int channel = 0; channel < 3; ++channel)
        for (int third = 0; third < 3; ++third)
            for (int x = 0; x < 16; ++x) {
                const int at = 3 * x + channel - 16 * third;
                masks.from[channel][third][x] = static_cast<std::int8_t>(at >= 0 && at < 16 ? at : -1);
            }
    return masks;
}

constexpr ShuffleMasks kToRgb = masks_to_rgb(), kToPlanes = masks_to_planes();

inline __m128i load16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }

inline __m128i shuffled(__m128i bytes, const ShuffleMasks& masks, int channel, int third) {
    return _mm_shuffle_epi8(bytes, load16(masks.from[channel][third]));
}

inline void store_union(__m128i a, __m128i b, __m128i c, std::uint8_t* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_or_si128(_mm_or_si128(a, b), c));
}
#endif

// Writes 3 * width bytes.
inline void interleave(const std::uint8_t* planes, std::ptrdiff_t plane, int width, std::uint8_t* rgb) {
    const std::uint8_t *red = planes, *green = planes + plane, *blue = planes + 2 * plane;
    int x = 0;
#if defined(__AVX2__)
    for (; x + kShuffledPixels <= width; x += kShuffledPixels) {
        const __m128i r = load16(red + x), g = load16(green + x), b = load16(blue + x);
        for (int third = 0; third < 3; ++third)
            store_union(shuffled(r, kToRgb, 0, third), shuffled(g, kToRgb, 1, third), shuffled(b, kToRgb, 2, third),
                        rgb + 3 * x + 16 * third);
    }
#endif
    for (; x < width; ++x) rgb[3 * x] = red[x], rgb[3 * x + 1] = green[x], rgb[3 * x + 2] = blue[x];
}

// Reads 3 * width bytes, and writes `width` bytes of each plane.
inline void deinterleave(const std::uint8_t* rgb, int width, std::uint8_t* planes, std::ptrdiff_t plane) {
    std::uint8_t *red = planes, *green = planes + plane, *blue = planes + 2 * plane;
    int x = 0;
#if defined(__AVX2__)
    for (; x + kShuffledPixels <= width; x += kShuffledPixels) {
        const __m128i a = load16(rgb + 3 * x), b = load16(rgb + 3 * x + 16), c = load16(rgb + 3 * x + 32);
        for (int channel = 0; channel < 3; ++channel)
            store_union(shuffled(a, kToPlanes, channel, 0), shuffled(b, kToPlanes, channel, 1),
                        shuffled(c, kToPlanes, channel, 2), planes + channel * plane + x);
    }
#endif
    for (; x < width; ++x) red[x] = rgb[3 * x], green[x] = rgb[3 * x + 1], blue[x] = rgb[3 * x + 2];
}

}  // namespace
}  // namespace stoker
