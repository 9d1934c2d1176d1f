// The work of one batch, as data: its samples, and the images to make of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/image_array.h"
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
    BatchOptions options;
    std::uint8_t* status = nullptr;
};

}  // namespace stoker
