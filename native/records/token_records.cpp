#include "records/token_records.h"

#include <bit>
#include <numeric>
#include <stdexcept>

namespace stoker {
namespace {

// Numbers of fields in tensorflow/core/example/example.proto and feature.proto; entries of a map have 1 and 2.
constexpr unsigned kFeatures = 1, kFeature = 1, kKey = 1, kValue = 2, kBytesList = 1, kInt64List = 3, kValues = 1;

// https://protobuf.dev/programming-guides/encoding/
std::size_t varint_bytes(std::uint64_t value) { return (static_cast<std::size_t>(std::bit_width(value | 1U)) + 6) / 7; }

void put_varint(std::string& out, std::uint64_t value) {
    for (; value > 127; value >>= 7U) out += static_cast<char>((value & 127U) | 128U);
    out += static_cast<char>(value);
}

// The bytes of a field whose value has `size` bytes.
std::size_t field_bytes(std::size_t size) { return 1 + varint_bytes(size) + size; }

void put_header(std::string& out, unsigned number, std::size_t size) {
    out += static_cast<char>(number << 3U | 2U);  // wire type 2: a length, then that many bytes
    put_varint(out, size);
}

void put_key(std::string& out, std::string_view name) {
    put_header(out, kKey, name.size());
    out += name;
}

// The sizes of the messages of a feature, from the inside to the outside.
struct FeatureSizes {
    std::size_t values, list, feature, entry;

    FeatureSizes(std::string_view name, std::size_t value_bytes)
        : values(value_bytes),
          list(field_bytes(values)),
          feature(field_bytes(list)),
          entry(field_bytes(name.size()) + field_bytes(feature)) {}

    // Writes the feature up to its values.
    void put(std::string& out, std::string_view name, unsigned type) const {
        put_header(out, kFeature, entry);
        put_key(out, name);
        put_header(out, kValue, feature);
        put_header(out, type, list);
        put_header(out, kValues, values);
    }
};

void put_stored(std::string& out, std::span<const std::int32_t> ids, std::size_t stored_bytes) {
    for (const std::int32_t id : ids) {
        const auto value = static_cast<std::uint32_t>(id);
        const char bytes[] = {static_cast<char>(value), static_cast<char>(value >> 8U), static_cast<char>(value >> 16U),
                              static_cast<char>(value >> 24U)};
        out.append(bytes, stored_bytes);
    }
}

std::size_t varints_bytes(std::span<const std::int32_t> ids) {
    return std::accumulate(ids.begin(), ids.end(), std::size_t{0}, [](std::size_t sum, std::int32_t id) {
        return sum + varint_bytes(static_cast<std::uint32_t>(id));
    });
}

// Writes a record with the given ids of each field, and returns the end of its prefix.
std::size_t put_record(std::string& out, std::span<const FieldTokens> fields,
                       std::span<const std::span<const std::int32_t>> ids, std::string_view payload_name,
                       std::size_t stored_bytes) {
    std::vector<FeatureSizes> sizes;
    std::size_t tokens = 0, features = 0;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        sizes.emplace_back(fields[i].name, varints_bytes(ids[i]));
        features += field_bytes(sizes.back().entry);
        tokens += ids[i].size();
    }
    const FeatureSizes payload(payload_name, tokens * stored_bytes);
    put_header(out, kFeatures, features + field_bytes(payload.entry));
    for (std::size_t i = 0; i < fields.size(); ++i) {
        sizes[i].put(out, fields[i].name, kInt64List);
        for (const std::int32_t id : ids[i]) put_varint(out, static_cast<std::uint32_t>(id));
    }
    payload.put(out, payload_name, kBytesList);
    const std::size_t end = out.size();
    for (const auto& some : ids) put_stored(out, some, stored_bytes);
    return end;
}

void check(std::span<const FieldTokens> fields) {
    for (const FieldTokens& field : fields) {
        if (field.lengths.size() != fields.front().lengths.size())
            throw std::length_error("the fields have different numbers of samples");
        std::size_t left = field.ids.size();
        for (const std::int64_t length : field.lengths) {
            if (length < 0 || static_cast<std::size_t>(length) > left)
                throw std::length_error("the lengths do not add up to the ids");
            left -= static_cast<std::size_t>(length);
        }
        if (left != 0) throw std::length_error("the lengths do not add up to the ids");
    }
}

}  // namespace

TokenRecords encode_token_records(std::span<const FieldTokens> fields, std::string_view payload_name,
                                  std::size_t stored_bytes) {
    check(fields);
    TokenRecords records;
    std::vector<std::size_t> at(fields.size());
    std::vector<std::span<const std::int32_t>> ids(fields.size());
    const std::size_t samples = fields.empty() ? 0 : fields.front().lengths.size();
    for (std::size_t sample = 0; sample < samples; ++sample) {
        for (std::size_t i = 0; i < fields.size(); ++i) {
            ids[i] = fields[i].ids.subspan(at[i], static_cast<std::size_t>(fields[i].lengths[sample]));
            at[i] += ids[i].size();
        }
        records.prefix_ends.push_back(put_record(records.bytes, fields, ids, payload_name, stored_bytes));
        records.ends.push_back(records.bytes.size());
    }
    return records;
}

}  // namespace stoker
