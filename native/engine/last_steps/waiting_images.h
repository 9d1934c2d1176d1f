// Images that wait for others, to go through their last steps in one call.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/images/image_array.h"
#include "engine/images/image_finisher.h"
#include "pixels/planar_image.h"

namespace stoker {

class WaitingImages {
  public:
    // Takes the pixels of image `i`, and leaves others in `image`.
    void add(const ImageArray& images, std::size_t i, PlanarImage& image);
    // Runs the last steps on all images, and stores them.
    void finish(ImageFinisher& finisher);
    // Forgets all images.
    void clear();

  private:
    struct Group {
        const ImageArray* array = nullptr;
        std::vector<std::size_t> rows;
        std::vector<PlanarImage> images;  // as many as there are rows, and kept memory
    };

    std::vector<Group> groups_;  // one for each array of images
};

}  // namespace stoker
