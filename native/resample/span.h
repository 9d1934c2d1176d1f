// One axis of a resize: the part of the source, and the number of outputs.
#pragma once

#include <cstdint>

namespace stoker {

// The numbers of stoker.augment.resampling.Interpolation.
enum class Interpolation : std::uint8_t {
    nearest = 0,
    bilinear = 1,
    bicubic = 2,
    lanczos = 3,
    plain_bilinear = 4,  // without antialiasing
    plain_bicubic = 5,
};
constexpr Interpolation kLastInterpolation = Interpolation::plain_bicubic;

// Whether an output reads a few pixels about its centre only, however much the image shrinks.
constexpr bool is_plain(Interpolation interpolation) {
    return interpolation == Interpolation::nearest || interpolation >= Interpolation::plain_bilinear;
}

// [begin, end) of a source axis becomes `outputs` pixels. Nothing outside [low, high) is read.
struct Span {
    double begin = 0, end = 0;
    int low = 0, high = 0;
    int outputs = 0;
    bool reversed = false;
    int mirrored = 0;  // the size of the axis if it is mirrored against the oriented image, else 0

    double scale() const { return (end - begin) / outputs; }
    // Mirrors the span in an axis of this size.
    void mirror(int size);
    // Converts the span to an image of `eighths`/8 of the size. A pixel that lies mostly outside is left out.
    // Returns false if no pixel is left.
    bool reduce(int eighths);
};

}  // namespace stoker
