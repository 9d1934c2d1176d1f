// Frequencies of words, from which a vocabulary is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "words/word_table.h"

namespace stoker {

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

}  // namespace stoker
