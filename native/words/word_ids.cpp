#include "words/word_ids.h"

#include <algorithm>

#include "words/word_split.h"

namespace stoker {
namespace {

std::int32_t count_characters(const char* from, const char* to) {
    return static_cast<std::int32_t>(
        std::count_if(from, to, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

void find_places(std::string_view text, EncodedWords& found) {
    const char* at = text.data();
    std::int32_t characters = 0;
    for_each_word(text, [&](std::string_view word) {
        characters += count_characters(at, word.data());
        found.starts.push_back(characters);
        at = word.data() + word.size();
        characters += count_characters(word.data(), at);
        found.ends.push_back(characters);
    });
}

}  // namespace

EncodedWords encode_words(const WordTable& table, std::span<const std::string_view> texts, bool places) {
    EncodedWords found;
    found.lengths.reserve(texts.size());
    for (const std::string_view text : texts) {
        const std::size_t before = found.ids.size();
        for_each_word(text, [&](std::string_view word) { found.ids.push_back(std::max(table.find(word), 0)); });
        found.lengths.push_back(static_cast<std::int64_t>(found.ids.size() - before));
        if (places) find_places(text, found);
    }
    return found;
}

}  // namespace stoker
