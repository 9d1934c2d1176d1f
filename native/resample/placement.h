// From the parameters of a sample, which speak of the oriented image, to what a decoder and a resampler
// do with the stored one.
#pragma once

#include <cstdint>

#include "decode/orientation.h"
#include "pixels/rectangle.h"
#include "resample/span.h"

namespace stoker {

// One row of stoker.augment.params.ImageParams.
struct Parameters {
    const std::int32_t* crop;   // top, left, height, width
    const double* region;       // top, left, bottom, right
    const std::int32_t* dest;   // top, left, height, width
    const bool* flip;           // horizontally, vertically
    Interpolation interpolation = Interpolation::bilinear;
};

struct Placement {
    Span x, y;        // of the stored image
    bool transposed;  // the stored y axis runs along the output's rows
    Rectangle dest;   // after mirroring
    Interpolation interpolation = Interpolation::bilinear;
};

// `source` is the size of the oriented image, `frame` the size that parameters.dest refers to.
Placement placement_of(const Parameters& parameters, Orientation orientation, Size source, Size frame);

// The smallest DCT size, in eighths, that keeps the output's resolution in both directions: 1, 2, 4 or 8.
// All of it where pixels are picked, not averaged.
int dct_eighths(const Placement& placement);

}  // namespace stoker
