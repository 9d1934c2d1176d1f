// The token ids of a batch: read from payloads, checked, joined and widened.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "records/shards.h"

namespace stoker {

// The bytes of one sequence in its payload: its tokens, and those that truncation keeps at its end.
struct TokenEdges {
    std::int64_t begin, end, tail_begin, tail_end;
};

// The payloads of a batch, one entry for each sequence in each span.
struct TokenPayloads {
    std::span<const std::int32_t> shard;
    std::span<const std::int64_t> offset;
    std::span<const std::int64_t> length;
    std::span<const std::int64_t> expected;  // bytes that the tokens of all fields take
    std::span<const std::uint32_t> crc;
    std::span<const bool> checked;  // whether the checksum is compared
    const TokenEdges* edges;        // a row for each payload, an entry for each field
    std::size_t fields;
};

// The array that receives the ids of one field: end to end, or each payload's in a padded row.
struct TokenArray {
    void* data;
    std::size_t size;
    std::size_t element_bytes;  // 4 or 8
    std::size_t row = 0;        // ids of a row; 0 for ids end to end
};

// The first payload that is bad, or -1, and the reason.
struct BadPayload {
    std::int64_t index = -1;
    std::string reason;
};

// Reads the ids, little-endian numbers of `stored_bytes`, 2 or 4, into the arrays, one for each field; or, if all have
// rows, one for each field of one batch after the other. Rows are padded with `fill`. Throws std::length_error if an
// array has another size than its ids, or a row is too short.
BadPayload read_tokens(const DataFiles& files, const TokenPayloads& payloads, std::size_t stored_bytes,
                       std::span<const TokenArray> arrays, std::int64_t fill);

}  // namespace stoker
