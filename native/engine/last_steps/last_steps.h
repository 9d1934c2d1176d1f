// The contract of steps that come after all others of an image: those that Python executes.
#pragma once

#include <cstddef>
#include <span>

#include "pixels/planar_image.h"

namespace stoker {

class LastSteps {
  public:
    LastSteps() = default;
    virtual ~LastSteps() = default;
    LastSteps(const LastSteps&) = delete;
    LastSteps& operator=(const LastSteps&) = delete;

    // Whether a step changes image `i` of the array.
    virtual bool applies(std::size_t i) const = 0;
    // Whether run() takes several images, which then have one size.
    virtual bool takes_several() const = 0;
    // Changes images. images[k] lies at the position rows[k] of the array.
    virtual void run(std::span<const std::size_t> rows, std::span<PlanarImage> images) const = 0;
};

}  // namespace stoker
