// The index columns of a batch's samples; see stoker.formats.samples.Samples.
#pragma once

#include <cstdint>

namespace stoker {

struct SampleColumns {
    const std::int32_t* shard;
    const std::int64_t* offset;
    const std::int64_t* length;
    const std::uint32_t* crc;
    const std::uint8_t* codec;
    const std::int32_t* height;  // of the oriented image
    const std::int32_t* width;
    const std::uint8_t* orientation;
};

}  // namespace stoker
