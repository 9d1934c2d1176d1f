// Masks of the objects of a batch, out of outlines and run lengths.
#pragma once

#include <cstddef>
#include <cstdint>

#include "masks/polygon_fill.h"

namespace stoker {

// The N images that objects belong to; see stoker.augment.params.ImageParams.
struct ImageColumns {
    std::size_t count;
    const double* matrix;  // 3 x 3 each, row-major: to the output for outlines, to the source for all else
    const double* region;  // top, left, bottom, right of the source
    const bool* shown;
};

// M masks, (height, width) each.
struct ObjectMasks {
    std::size_t count;
    int height, width;
    const std::int64_t* owner;  // the image that each object belongs to
    std::uint8_t* out;

    std::size_t pixels() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
    std::uint8_t* at(std::size_t i) const { return out + i * pixels(); }
};

// Writes the masks. `polygons` says how many each object has, `sizes` how many of the `points` each of those has.
void fill_outlines(const ObjectMasks& masks, const ImageColumns& images, const Point* points,
                   const std::int64_t* sizes, const std::int64_t* polygons);

// Draws into masks that were written. `counts` says how many of the `runs` each object has: lengths of zeros and
// ones in turn, down the columns of a source of these sizes, whose pixels they must sum to.
void fill_runs(const ObjectMasks& masks, const ImageColumns& images, const std::int32_t* heights,
               const std::int32_t* widths, const std::uint32_t* runs, const std::int64_t* counts);

}  // namespace stoker
