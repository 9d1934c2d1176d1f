// The words of texts in UTF-8: their numbering, their frequencies, and the token ids of texts whose tokens are words. Words
// are separated by whitespace as Python's str.split does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// A hash table of words, which numbers them in the order in which they were added.
class WordTable {
  public:
    // Returns the number of a word, or -1 if the table lacks it.
    std::int32_t find(std::string_view word) const;
    // Returns the number of a word, and adds it if the table lacks it. Throws std::length_error if there are too many.
    std::int32_t add(std::string_view word);

    std::size_t size() const { return starts_.size() - 1; }
    std::string_view word(std::size_t number) const;

  private:
    struct Slot {
        std::uint32_t hash = 0;
        std::int32_t number = -1;  // -1 for an empty slot
    };

    // Returns the slot of a word, or the empty slot that it would take.
    std::size_t slot_of(std::string_view word, std::uint32_t hash) const;
    void grow();

    std::string bytes_;  // the bytes of all words, end to end
    std::vector<std::size_t> starts_ = {0};
    std::vector<Slot> slots_ = std::vector<Slot>(64);  // a power of two, at most half of them taken
};

// Counts words; several threads may add texts at once.
class WordCounts {
  public:
    // Counts the words of texts in UTF-8.
    void add(std::span<const std::string_view> texts);
    // Returns at most `most` words that occur at least `least` times, the most frequent ones first. Equally frequent
    // words are in the order of their bytes, which is that of their code points.
    std::vector<std::string> frequent(std::int64_t least, std::size_t most) const;

  private:
    mutable std::mutex mutex_;
    WordTable words_;
    std::vector<std::int64_t> counts_;
};

// The words of N texts, end to end.
struct EncodedWords {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;        // words of each text
    std::vector<std::int32_t> starts, ends;  // the first character of each word in its text, and its end
};

// Encodes texts in UTF-8. The id of a word is its number in the table, or 0 if the table lacks it. Starts and ends stay
// empty unless `with_offsets` is true.
EncodedWords encode_words(const WordTable& table, std::span<const std::string_view> texts, bool with_offsets);

}  // namespace stoker
