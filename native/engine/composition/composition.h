// Images that are made of several samples, such as mosaics, as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pixels/rectangle.h"
#include "records/column.h"

namespace stoker {

// The columns of a batch's P parts: stoker.augment.params.Composition, as C++ reads it. A part is what an
// image shows of one sample. The parts of an image stand one after the other, layer by layer; colours, steps and boxes to
// erase are those of the first one.
struct CompositionColumns {
    const std::int32_t* image = nullptr;  // null: each image shows one sample
    const bool* shown = nullptr;          // whether a part is seen at least partly; others are not read
    const std::uint8_t* layer = nullptr;
    const std::int32_t* share = nullptr;  // of the layer's pixels in the image, 0 to kWhole
    const std::int32_t* mask = nullptr;   // the mask of the pixels that the layer replaces; -1: all, by share
    RowsOfAnySize<std::uint8_t> masks;    // all masks one after the other, of the size of the output; 0: not replaced
};

// A column has the name of the attribute of ImageParams that it holds.
inline constexpr Column kCompositionColumns[] = {
    per_sample<&CompositionColumns::image>("composition.image"),
    per_sample<&CompositionColumns::shown>("composition.shown"),
    per_sample<&CompositionColumns::layer>("composition.layer"),
    per_sample<&CompositionColumns::share>("composition.share"),
    per_sample<&CompositionColumns::mask>("composition.mask"),
    per_batch<&CompositionColumns::masks>("composition.masks", {kAnySize}),
};

struct Composition {
    static constexpr std::int32_t kWhole = 1 << 16;

    CompositionColumns columns;
    std::vector<std::size_t> first;  // of the parts of each image, and the number of parts

    std::size_t count() const { return first.empty() ? 0 : first.size() - 1; }
    // Returns the mask of a part, or null.
    const std::uint8_t* mask(std::size_t part, Size output) const;

    // Checks the columns of `parts` parts of `images` images of the size `output`, and finds the parts of each image.
    // Throws std::invalid_argument.
    static Composition of(const CompositionColumns& columns, std::size_t parts, std::size_t images, Size output);
};

}  // namespace stoker
