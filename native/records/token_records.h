// Records of token ids, as conversions of text write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// The token ids of one field of N samples.
struct FieldTokens {
    std::string_view name;
    std::span<const std::int32_t> ids;      // of all samples, end to end; at least 0
    std::span<const std::int64_t> lengths;  // of each sample
};

// The bytes of N records, end to end. A record is a prefix and its payload.
struct TokenRecords {
    std::string bytes;
    std::vector<std::size_t> prefix_ends, ends;  // of each record
};

// Encodes samples as messages tf.train.Example: an int64_list for each field, then a bytes_list with the name
// `payload_name`. Its value is the payload: all ids as little-endian numbers of `stored_bytes`, 2 or 4. Throws
// std::length_error if the lengths of a field do not add up to its ids, or fields have different numbers of samples.
TokenRecords encode_token_records(std::span<const FieldTokens> fields, std::string_view payload_name,
                                  std::size_t stored_bytes);

}  // namespace stoker
