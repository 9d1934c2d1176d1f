// The work of one batch, as data: its samples, and the images to make of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/composition/composition.h"
#include "engine/composition/kept_images.h"
#include "engine/images/image_array.h"
#include "pixels/rgb_view.h"
#include "records/sample_columns.h"
#include "records/shards.h"

namespace stoker {

struct BatchOptions {
    std::int64_t max_pixels = 0;
    bool verify = true;
    bool decode_only = false;
    bool grey = false;  // see EncodedImage
};

struct BatchWork {
    std::size_t count = 0;  // of samples
    std::shared_ptr<const DataFiles> files;
    SampleColumns samples{};
    std::vector<RgbView> decoded;  // by position; empty for samples that C++ decodes
    std::vector<ImageArray> images;
    Composition composition;  // of the only array, if its images have several samples each
    std::shared_ptr<KeptImages> kept;  // decoded samples, if images have several samples
    BatchOptions options;
    std::size_t share = 1;  // units that a thread claims at once
    std::uint8_t* status = nullptr;

    // Returns the number of units of work, which threads claim: images with several samples, or samples.
    std::size_t units() const { return composition.count() > 0 ? composition.count() : count; }
};

}  // namespace stoker
