// One axis of a resize: which part of the source becomes how many pixels, and by which filter.
#pragma once

#include <cstdint>

namespace stoker {

// The numbers of stoker.augment.interpolation.Interpolation.
enum class Interpolation : std::uint8_t { nearest = 0, bilinear = 1, bicubic = 2, lanczos = 3 };

// [begin, end) of a source axis becomes `outputs` samples; nothing outside [low, high) is read.
struct Span {
    double begin = 0, end = 0;
    int low = 0, high = 0;
    int outputs = 0;
    bool reversed = false;
    int mirrored = 0;  // the axis' size, if all this counts from its other end than the parameters do

    double scale() const { return (end - begin) / outputs; }
    void mirror(int size);
    // In an image of eighths/8 the size, less what lies more than half outside; false if nothing is left.
    bool reduce(int eighths);
};

}  // namespace stoker
