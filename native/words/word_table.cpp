#include "words/word_table.h"

#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

namespace stoker {
namespace {

std::uint32_t hash_of(std::string_view word) {
    const std::uint64_t hash = std::hash<std::string_view>{}(word);
    return static_cast<std::uint32_t>(hash ^ hash >> 32U);
}

}  // namespace

std::string_view WordTable::word(std::size_t number) const {
    return std::string_view(bytes_).substr(starts_[number], starts_[number + 1] - starts_[number]);
}

std::size_t WordTable::place(std::string_view word, std::uint32_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].number >= 0 &&
           (slots_[at].hash != hash || this->word(static_cast<std::size_t>(slots_[at].number)) != word))
        at = (at + 1) & mask;
    return at;
}

std::int32_t WordTable::find(std::string_view word) const { return slots_[place(word, hash_of(word))].number; }

std::int32_t WordTable::add(std::string_view word) {
    const std::uint32_t hash = hash_of(word);
    std::size_t at = place(word, hash);
    if (slots_[at].number >= 0) return slots_[at].number;
    if (size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
        throw std::length_error("there are more words than numbers of 32 bits");
    if (2 * size() >= slots_.size()) {
        grow();
        at = place(word, hash);
    }
    bytes_ += word;
    starts_.push_back(bytes_.size());
    slots_[at] = {hash, static_cast<std::int32_t>(size() - 1)};
    return slots_[at].number;
}

void WordTable::grow() {
    std::vector<Slot> larger(2 * slots_.size());
    const std::size_t mask = larger.size() - 1;
    for (const Slot& slot : slots_) {
        if (slot.number < 0) continue;
        std::size_t at = slot.hash & mask;
        while (larger[at].number >= 0) at = (at + 1) & mask;
        larger[at] = slot;
    }
    slots_ = std::move(larger);
}

}  // namespace stoker
