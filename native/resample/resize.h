// The resize of a stored image onto the output, computed from a sample's parameters, which refer to the
// oriented image.
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

    // Returns the span of the y axis (0) or the x axis (1).
    Span span(int axis) const {
        return {region[axis], region[axis + 2], crop[axis], crop[axis] + crop[axis + 2], dest[axis + 2]};
    }
};

// The resize of a stored image onto a rectangle.
struct Resize {
    Span x, y;        // the axes of the stored image
    bool transposed;  // whether the stored y axis runs along the output's rows
    Rectangle dest;   // in the mirrored output
    Interpolation interpolation = Interpolation::bilinear;
};

// `source` is the size of the oriented image, `frame` the size of the image that parameters.dest lies in.
Resize resize_of(const Parameters& parameters, Orientation orientation, Size source, Size frame);

// Returns the size at which an image is decoded: 1, 2, 4 or 8 eighths of its size. `scale` of its pixels become
// one pixel of the output. The decoded image has at least `margin` times the output's height and width.
int reduced_eighths(double scale, int margin);

// Returns reduced_eighths() of the smaller scale of both axes. Without antialiasing the full size is needed.
int dct_eighths(const Resize& resize, int margin);

}  // namespace stoker
