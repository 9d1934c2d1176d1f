// The columns of a batch's samples: the fields of stoker.formats.dataset.index.Samples that C++ reads.
#pragma once

#include "records/column.h"

namespace stoker {

// The checksum of a payload that was not read when its index was made (NO_CHECKSUM in samples.py).
inline constexpr std::uint32_t kNoChecksum = 0;

struct SampleColumns {
    const std::int32_t* shard;
    const std::int64_t* offset;
    const std::int64_t* length;
    const std::uint32_t* crc;
    const std::uint8_t* codec;
    const std::int32_t* height;  // of the oriented image
    const std::int32_t* width;
    const std::uint8_t* orientation;
    RowsOfAnySize<std::uint32_t> bands;  // see restarts/bands.h; no data: no sample has bands
};

// A column has the name of the attribute of Samples that it holds.
inline constexpr Column kSampleColumns[] = {
    per_sample<&SampleColumns::shard>("shard"),
    per_sample<&SampleColumns::offset>("offset"),
    per_sample<&SampleColumns::length>("length"),
    per_sample<&SampleColumns::crc>("crc"),
    per_sample<&SampleColumns::codec>("codec"),
    per_sample<&SampleColumns::height>("height"),
    per_sample<&SampleColumns::width>("width"),
    per_sample<&SampleColumns::orientation>("orientation"),
    optional(per_sample<&SampleColumns::bands>("bands", {kAnySize})),
};

}  // namespace stoker
