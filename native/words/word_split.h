// The words of a text, separated by whitespace as Python's str.split does it.
#pragma once

#include <cstddef>
#include <string_view>

namespace stoker {

// Returns the bytes of the whitespace character that begins at `at`, or 0 if there is another character. These are
// Unicode's characters of category Zs, and those of bidirectional class WS, B or S.
inline std::size_t whitespace_bytes(const char* at, const char* end) {
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

}  // namespace stoker
