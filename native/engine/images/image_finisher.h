// The last steps of an image: operations on its pixels, colours, and boxes to erase.
#pragma once

#include <cstddef>

#include "engine/images/image_array.h"
#include "pixels/image_writer.h"
#include "pixels/planar_image.h"
#include "steps/step_runner.h"

namespace stoker {

class ImageFinisher {
  public:
    // Runs all steps of image `i`, and stores it.
    void run(const ImageArray& images, std::size_t i, const Target& target, PlanarImage& image);
    // Runs the steps before the last ones.
    void run_steps(const ImageArray& images, std::size_t i, PlanarImage& image) { steps_.run(images.steps, i, image); }
    // Stores an image after its last steps: applies colours, and erases boxes.
    void store(const ImageArray& images, std::size_t i, Target target, const PlanarImage& image);
    // The writer, for rows that need no whole image; erase() follows them.
    ImageWriter& writer() { return writer_; }
    void erase(const ImageArray& images, std::size_t i);

  private:
    ImageWriter writer_;
    StepRunner steps_;
    float color_[12] = {};
};

}  // namespace stoker
