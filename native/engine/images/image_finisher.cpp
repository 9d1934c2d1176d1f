#include "engine/images/image_finisher.h"

#include <algorithm>

#include "steps/color_map.h"

namespace stoker {

void ImageFinisher::run(const ImageArray& images, std::size_t i, const Target& target, PlanarImage& image) {
    run_steps(images, i, image);
    if (images.has_last_steps(i)) images.last_steps->run({&i, 1}, {&image, 1});
    store(images, i, target, image);
}

void ImageFinisher::store(const ImageArray& images, std::size_t i, Target target, const PlanarImage& image) {
    std::copy(target.color, target.color + 12, color_);
    if (images.uses_mean(i)) add_mean(color_, images.parameters.mean_matrix + 9 * i, image.mean().data());
    target.color = color_;
    writer_.begin(target, {0, 0, target.height, target.width});
    for (int y = 0; y < target.height; ++y) writer_.row(y, image.row(y), image.plane());
    erase(images, i);
}

void ImageFinisher::erase(const ImageArray& images, std::size_t i) {
    for (const EraseColumns& erase : images.erase) {
        if (erase.keys == nullptr)
            writer_.erase(erase.box_of(i), erase.value);
        else
            writer_.erase(erase.box_of(i), erase.noise_of(i));
    }
}

}  // namespace stoker
