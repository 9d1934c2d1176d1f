#include "engine/composition/composition.h"

#include <stdexcept>
#include <string>

namespace stoker {
namespace {

void require(bool condition, std::size_t part, const char* rule) {
    if (!condition) throw std::invalid_argument("part " + std::to_string(part) + " of the batch: " + rule);
}

void check_layer(const CompositionColumns& columns, std::size_t part, bool begins, Size output) {
    const std::uint8_t layer = columns.layer[part];
    if (begins)
        require(layer == 0, part, "the first part of an image must be of layer 0");
    else
        require(layer == columns.layer[part - 1] || layer == columns.layer[part - 1] + 1, part,
                "the layers of an image must follow each other");
    require(columns.share[part] >= 0 && columns.share[part] <= Composition::kWhole, part,
            "share must be from 0 to 65536");
    const std::int32_t mask = columns.mask[part];
    require(mask >= -1 && static_cast<std::size_t>(std::int64_t{mask} + 1) * output.pixels() <= columns.masks.row_size, part,
            "mask must be -1 or the number of a mask");
}

}  // namespace

const std::uint8_t* Composition::mask(std::size_t part, Size output) const {
    const std::int32_t number = columns.mask[part];
    return number < 0 ? nullptr : columns.masks.data + static_cast<std::size_t>(number) * output.pixels();
}

Composition Composition::of(const CompositionColumns& columns, std::size_t parts, std::size_t images, Size output) {
    Composition composition{columns, {}};
    for (std::size_t part = 0; part < parts; ++part) {
        const bool begins = part == 0 || columns.image[part] != columns.image[part - 1];
        if (begins) {
            require(columns.image[part] == static_cast<std::int32_t>(composition.first.size()), part,
                    "images must be numbered from 0, in the order of their parts");
            composition.first.push_back(part);
        }
        check_layer(columns, part, begins, output);
    }
    if (composition.first.size() != images) throw std::invalid_argument("each image must have a part");
    composition.first.push_back(parts);
    return composition;
}

}  // namespace stoker
