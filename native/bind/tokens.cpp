#include "bind/bind.h"
#include "records/token_payloads.h"
#include "records/token_records.h"

namespace stoker {
namespace {

using Ids = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Edges = Array<const std::int64_t, nb::shape<-1, -1, 4>>;

template <class T>
std::span<const T> span_of(const Vector<T>& vector, std::size_t count) {
    require(vector.shape(0) == count, "the columns must have an entry for each payload");
    return {vector.data(), count};
}

nb::object read_ids(const Shards& shards, const Vector<std::int32_t>& shard, const Vector<std::int64_t>& offset,
                    const Vector<std::int64_t>& length, const Vector<std::int64_t>& expected,
                    const Vector<std::uint32_t>& crc, const Vector<bool>& checked, const Edges& edges,
                    std::size_t stored_bytes, const std::vector<Ids>& ids, std::int64_t fill) {
    const std::size_t count = shard.shape(0);
    require(stored_bytes == 2 || stored_bytes == 4, "stored ids have 2 or 4 bytes");
    const std::size_t fields = edges.shape(1);
    require(edges.shape(0) == count && fields > 0, "edges must be (payloads, fields, 4)");
    require(ids.size() == fields || (!ids.empty() && ids.size() % fields == 0 && ids[0].ndim() == 2),
            "each batch must have ids for each field, in rows if there are several batches");
    const TokenPayloads payloads{span_of(shard, count),    span_of(offset, count), span_of(length, count),
                                 span_of(expected, count), span_of(crc, count),    span_of(checked, count),
                                 reinterpret_cast<const TokenEdges*>(edges.data()), fields};
    std::vector<TokenArray> arrays;
    std::size_t rows = 0;  // of all batches
    for (const Ids& array : ids) {
        const std::size_t payloads_of_batch = ids.size() == fields ? count : ids[arrays.size() / fields * fields].shape(0);
        if (arrays.size() % fields == 0) rows += payloads_of_batch;
        require(array.itemsize() == 4 || array.itemsize() == 8, "ids must have 4 or 8 bytes");
        const bool has_rows = array.ndim() == 2;
        require((array.ndim() == 1 && ids.size() == fields) || (has_rows && array.shape(0) == payloads_of_batch),
                "ids must be (tokens,) or (payloads, row)");
        require(!has_rows || array.shape(1) > 0, "rows must hold at least one token");
        arrays.push_back({array.data(), array.size(), array.itemsize(), has_rows ? array.shape(1) : 0});
    }
    require(rows == count, "the batches must have a row for each payload");
    const auto files = shards.files();
    const BadPayload bad = without_gil([&] { return read_tokens(*files, payloads, stored_bytes, arrays, fill); });
    if (bad.index < 0) return nb::none();
    return nb::make_tuple(bad.index, bad.reason);
}

using FieldArrays = std::tuple<std::string, Vector<std::int32_t>, Vector<std::int64_t>>;

nb::list encode_records(const std::vector<FieldArrays>& arrays, const std::string& payload_name,
                        std::size_t stored_bytes) {
    require(stored_bytes == 2 || stored_bytes == 4, "stored ids have 2 or 4 bytes");
    std::vector<FieldTokens> fields;
    for (const auto& [name, ids, lengths] : arrays)
        fields.push_back({name, {ids.data(), ids.size()}, {lengths.data(), lengths.size()}});
    const TokenRecords encoded =
        without_gil([&] { return encode_token_records(fields, payload_name, stored_bytes); });
    nb::list records;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < encoded.ends.size(); ++i) {
        const std::size_t middle = encoded.prefix_ends[i], end = encoded.ends[i];
        records.append(nb::make_tuple(nb::bytes(encoded.bytes.data() + begin, middle - begin),
                                      nb::bytes(encoded.bytes.data() + middle, end - middle)));
        begin = end;
    }
    return records;
}

}  // namespace

void bind_tokens(nb::module_& m) {
    m.def("encode_token_records", encode_records, "fields"_a, "payload_name"_a, "stored_bytes"_a);
    m.def("read_tokens", read_ids, "shards"_a, "shard"_a, "offset"_a, "length"_a, "expected"_a, "crc"_a, "checked"_a,
          "edges"_a, "stored_bytes"_a, "ids"_a, "fill"_a = 0);
}

}  // namespace stoker
