#include "words/words.h"

#include <algorithm>
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

// Returns the bytes of the whitespace character that begins at `at`, or 0 if there is another character. These are
// Unicode's characters of category Zs, and those of bidirectional class WS, B or S.
std::size_t whitespace_bytes(const char* at, const char* end) {
    const auto byte = [at](std::size_t i) { return static_cast<unsigned char>(at[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return first == ' ' || (first >= '\t' && first <= '\r') || (first >= 0x1C && first <= 0x1F);
    const std::ptrdiff_t left = end - at;
    if (first == 0xC2) return left > 1 && (byte(1) == 0x85 || byte(1) == 0xA0) ? 2 : 0;
    if (first < 0xE1 || first > 0xE3 || left < 3) return 0;
    const unsigned code = (first & 15U) << 12U | (byte(1) & 63U) << 6U | (byte(2) & 63U);
    const bool is_space = code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
                          code == 0x202F || code == 0x205F || code == 0x3000;
    return is_space ? 3 : 0;
}

// Calls `visit` with each word of a text in UTF-8.
template <class Visit>
void for_each_word(std::string_view text, Visit visit) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        if (const std::size_t space = whitespace_bytes(at, end)) {
            at += space;
            continue;
        }
        const char* const begin = at;
        do ++at;
        while (at != end && whitespace_bytes(at, end) == 0);
        visit(std::string_view(begin, static_cast<std::size_t>(at - begin)));
    }
}

void count(WordTable& words, std::vector<std::int64_t>& counts, std::string_view word, std::int64_t times) {
    const auto number = static_cast<std::size_t>(words.add(word));
    if (number == counts.size()) counts.push_back(0);
    counts[number] += times;
}

std::int32_t count_characters(const char* from, const char* to) {
    return static_cast<std::int32_t>(
        std::count_if(from, to, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

void find_offsets(std::string_view text, EncodedWords& encoded) {
    const char* at = text.data();
    std::int32_t characters = 0;
    for_each_word(text, [&](std::string_view word) {
        characters += count_characters(at, word.data());
        encoded.starts.push_back(characters);
        at = word.data() + word.size();
        characters += count_characters(word.data(), at);
        encoded.ends.push_back(characters);
    });
}

}  // namespace

std::string_view WordTable::word(std::size_t number) const {
    return std::string_view(bytes_).substr(starts_[number], starts_[number + 1] - starts_[number]);
}

std::size_t WordTable::slot_of(std::string_view word, std::uint32_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].number >= 0 &&
           (slots_[at].hash != hash || this->word(static_cast<std::size_t>(slots_[at].number)) != word))
        at = (at + 1) & mask;
    return at;
}

std::int32_t WordTable::find(std::string_view word) const { return slots_[slot_of(word, hash_of(word))].number; }

std::int32_t WordTable::add(std::string_view word) {
    const std::uint32_t hash = hash_of(word);
    std::size_t at = slot_of(word, hash);
    if (slots_[at].number >= 0) return slots_[at].number;
    if (size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
        throw std::length_error("there are more words than numbers of 32 bits");
    if (2 * size() >= slots_.size()) {
        grow();
        at = slot_of(word, hash);
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

void WordCounts::add(std::span<const std::string_view> texts) {
    WordTable words;
    std::vector<std::int64_t> counts;
    for (const std::string_view text : texts)
        for_each_word(text, [&](std::string_view word) { count(words, counts, word, 1); });
    const std::scoped_lock lock(mutex_);  // held briefly: most words of the texts repeat
    for (std::size_t i = 0; i < counts.size(); ++i) count(words_, counts_, words.word(i), counts[i]);
}

std::vector<std::string> WordCounts::frequent(std::int64_t least, std::size_t most) const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < counts_.size(); ++i)
        if (counts_[i] >= least) order.push_back(i);
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
        return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : words_.word(a) < words_.word(b);
    });
    order.resize(std::min(order.size(), most));
    std::vector<std::string> words;
    words.reserve(order.size());
    for (const std::size_t i : order) words.emplace_back(words_.word(i));
    return words;
}

EncodedWords encode_words(const WordTable& table, std::span<const std::string_view> texts, bool with_offsets) {
    EncodedWords encoded;
    encoded.lengths.reserve(texts.size());
    for (const std::string_view text : texts) {
        const std::size_t before = encoded.ids.size();
        for_each_word(text, [&](std::string_view word) { encoded.ids.push_back(std::max(table.find(word), 0)); });
        encoded.lengths.push_back(static_cast<std::int64_t>(encoded.ids.size() - before));
        if (with_offsets) find_offsets(text, encoded);
    }
    return encoded;
}

}  // namespace stoker
