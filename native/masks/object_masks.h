// The masks of a batch's objects, from polygons and run lengths.
#pragma once

#include <cstddef>
#include <cstdint>

#include "masks/polygon_fill.h"

namespace stoker {

// The N images that objects belong to; see stoker.augment.params.ImageParams.
struct ImageColumns {
    std::size_t count;
    const double* matrix;  // 3x3 each, row-major; for polygons from the source to the output, otherwise back
    const double* region;  // top, left, bottom, right of the source
    const bool* shown;
};

// The masks of M objects, (height, width) each.
struct ObjectMasks {
    std::size_t count;
    int height, width;
    const std::int64_t* owner;  // the position of each object's image
    std::uint8_t* out;

    std::size_t pixels() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
    std::uint8_t* at(std::size_t i) const { return out + i * pixels(); }
};

// Writes the masks. `polygons` has the number of polygons of each object, `sizes` the number of `points` of
// each polygon.
void fill_polygons(const ObjectMasks& masks, const ImageColumns& images, const Point* points,
                   const std::int64_t* sizes, const std::int64_t* polygons);

// Draws into masks that are written already. `counts` has the number of `runs` of each object. Runs are lengths
// of zeros and ones in turn, down the columns of the source, and sum to its number of pixels.
void fill_runs(const ObjectMasks& masks, const ImageColumns& images, const std::int32_t* heights,
               const std::int32_t* widths, const std::uint32_t* runs, const std::int64_t* counts);

}  // namespace stoker
