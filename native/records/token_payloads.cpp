#include "records/token_payloads.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "records/crc32c.h"

namespace stoker {
namespace {

template <class Stored, class Id>
void widen(const std::uint8_t* from, std::size_t count, void* to, std::size_t at) {
    auto* ids = static_cast<Id*>(to) + at;
    for (std::size_t i = 0; i < count; ++i) {
        Stored stored;
        std::memcpy(&stored, from + i * sizeof(Stored), sizeof(Stored));
        ids[i] = static_cast<Id>(stored);
    }
}

using Widen = void (*)(const std::uint8_t*, std::size_t, void*, std::size_t);

Widen widening(std::size_t stored_bytes, std::size_t element_bytes) {
    if (stored_bytes == 2) return element_bytes == 4 ? widen<std::uint16_t, std::int32_t> : widen<std::uint16_t, std::int64_t>;
    return element_bytes == 4 ? widen<std::int32_t, std::int32_t> : widen<std::int32_t, std::int64_t>;
}

std::string check(const TokenPayloads& payloads, std::size_t i, const Payload& payload) {
    if (payloads.checked[i] && crc32c(payload.data, payload.size) != payloads.crc[i])
        return "the payload does not match its checksum";
    if (payloads.length[i] != payloads.expected[i])
        return "the payload has " + std::to_string(payloads.length[i]) + " bytes, and its tokens take " +
               std::to_string(payloads.expected[i]);
    return {};
}

class Writer {
  public:
    Writer(std::span<const TokenArray> arrays, std::size_t stored_bytes)
        : arrays_(arrays), stored_bytes_(stored_bytes), filled_(arrays.size()) {
        for (const TokenArray& array : arrays) widen_.push_back(widening(stored_bytes, array.element_bytes));
    }

    // Goes to the row of payload i, if the field has rows.
    void begin_row(std::size_t field, std::size_t i) {
        if (arrays_[field].row) filled_[field] = i * arrays_[field].row;
        limit_ = arrays_[field].row ? filled_[field] + arrays_[field].row : arrays_[field].size;
    }

    void write(std::size_t field, const Payload& payload, std::int64_t begin, std::int64_t end) {
        if (begin == end) return;
        if (begin < 0 || end < begin || static_cast<std::size_t>(end) > payload.size)
            throw std::length_error("a sequence lies outside its payload");
        const std::size_t count = static_cast<std::size_t>(end - begin) / stored_bytes_;
        if (count > limit_ - filled_[field]) throw std::length_error("there are more tokens than the array has room for");
        widen_[field](payload.data + begin, count, arrays_[field].data, filled_[field]);
        filled_[field] += count;
    }

    void pad_row(std::size_t field, std::int64_t fill) {
        const TokenArray& array = arrays_[field];
        if (!array.row) return;
        if (array.element_bytes == 4)
            std::fill(static_cast<std::int32_t*>(array.data) + filled_[field], static_cast<std::int32_t*>(array.data) + limit_,
                      static_cast<std::int32_t>(fill));
        else
            std::fill(static_cast<std::int64_t*>(array.data) + filled_[field],
                      static_cast<std::int64_t*>(array.data) + limit_, fill);
    }

    void finish() const {
        for (std::size_t field = 0; field < arrays_.size(); ++field)
            if (!arrays_[field].row && filled_[field] != arrays_[field].size)
                throw std::length_error("there are fewer tokens than the array holds");
    }

  private:
    std::span<const TokenArray> arrays_;
    std::size_t stored_bytes_;
    std::vector<std::size_t> filled_;
    std::size_t limit_ = 0;  // the index after the last that the current payload may fill
    std::vector<Widen> widen_;
};

// Reads the batch of the payloads from `first` to `last`; see read_tokens.
BadPayload read_batch(const DataFiles& files, const TokenPayloads& payloads, std::size_t first, std::size_t last,
                      std::size_t stored_bytes, std::span<const TokenArray> arrays, std::int64_t fill) {
    Writer writer(arrays, stored_bytes);
    std::vector<std::uint8_t> storage;
    for (std::size_t i = first; i < last; ++i) {
        Payload payload;
        try {
            const auto shard = static_cast<std::size_t>(payloads.shard[i]);
            if (shard >= files.size() || !files[shard]->contains(payloads.offset[i], payloads.length[i]))
                throw std::out_of_range("the range does not lie within the shard");
            payload = files[shard]->read(payloads.offset[i], payloads.length[i], storage);
        } catch (const std::exception& error) {
            return {static_cast<std::int64_t>(i), std::string("the payload cannot be read: ") + error.what()};
        }
        if (std::string reason = check(payloads, i, payload); !reason.empty())
            return {static_cast<std::int64_t>(i), std::move(reason)};
        for (std::size_t field = 0; field < arrays.size(); ++field) {
            const TokenEdges& edges = payloads.edges[i * arrays.size() + field];
            writer.begin_row(field, i - first);
            writer.write(field, payload, edges.begin, edges.end);
            writer.write(field, payload, edges.tail_begin, edges.tail_end);
            writer.pad_row(field, fill);
        }
    }
    writer.finish();
    return {};
}

}  // namespace

BadPayload read_tokens(const DataFiles& files, const TokenPayloads& payloads, std::size_t stored_bytes,
                       std::span<const TokenArray> arrays, std::int64_t fill) {
    std::size_t first = 0;
    for (; !arrays.empty(); arrays = arrays.subspan(payloads.fields)) {
        const TokenArray& array = arrays.front();
        const std::size_t last = array.row ? first + array.size / array.row : payloads.shard.size();
        const auto batch = arrays.first(payloads.fields);
        if (BadPayload bad = read_batch(files, payloads, first, last, stored_bytes, batch, fill); bad.index >= 0) return bad;
        first = last;
    }
    return {};
}

}  // namespace stoker
