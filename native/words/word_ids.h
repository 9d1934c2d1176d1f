// Token ids of texts whose tokens are words.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "words/word_table.h"

namespace stoker {

// The words of N texts, end to end.
struct EncodedWords {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;        // words of each text
    std::vector<std::int32_t> starts, ends;  // the first character of each word in its text, and its end
};

// Encodes texts in UTF-8. The id of a word is its number in the table, or 0 if the table lacks it. Starts and ends stay
// empty unless `places` is true.
EncodedWords encode_words(const WordTable& table, std::span<const std::string_view> texts, bool places);

}  // namespace stoker
