// Boxes and keypoints where nothing is warped; the slow truth is stoker.augment.geometry.
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
    const double* window;       // null, or what the centre of a box must lie in, as `region`
};

struct BoxRules {
    double min_visible, min_size;
};

// One object each; `owner` is its image.
// `box` is left, top, right, bottom in the source, `out` in the output. False where it is to be dropped.
bool place_box(const AlignedColumns& images, std::size_t owner, const float* box, const BoxRules& rules, double* out);
// `count` keypoints of x, y and visibility; in a mirrored image keypoint k is what swap[k] was, if `swap` is given.
void place_keypoints(const AlignedColumns& images, std::size_t owner, const float* keypoints, std::size_t count,
                     const std::int64_t* swap, double* out);

}  // namespace stoker
