// Boxes and keypoints of objects in images that are not warped; the reference is stoker.augment.geometry.boxes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// The N images that objects belong to; see stoker.augment.params.ImageParams.
struct AlignedColumns {
    int height, width;          // of the output
    std::size_t count;
    const double* region;       // top, left, bottom, right of the source
    const std::int32_t* dest;   // top, left, height, width
    const bool* flip;           // horizontally, vertically
    const bool* shown;
    const double* window;       // where the centre of a box must lie, as in `region`; null: anywhere
};

struct BoxRules {
    double min_visible, min_size;
};

// Transforms a box of image `owner` from the source to the output: left, top, right, bottom. Returns false for
// a box to drop.
bool transform_box(const AlignedColumns& images, std::size_t owner, const float* box, const BoxRules& rules,
                   double* out);
// Transforms `count` keypoints of one object: x, y, visibility. In a mirrored image, keypoint k is the former
// keypoint swap[k], unless `swap` is null.
void transform_keypoints(const AlignedColumns& images, std::size_t owner, const float* keypoints, std::size_t count,
                     const std::int64_t* swap, double* out);

}  // namespace stoker
