// A hash table of words, which numbers them in the order in which they were added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

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

    // Returns the place of a word in the slots, or of the empty slot that it would take.
    std::size_t place(std::string_view word, std::uint32_t hash) const;
    void grow();

    std::string bytes_;  // the bytes of all words, end to end
    std::vector<std::size_t> starts_ = {0};
    std::vector<Slot> slots_ = std::vector<Slot>(64);  // a power of two, at most half of them taken
};

}  // namespace stoker
