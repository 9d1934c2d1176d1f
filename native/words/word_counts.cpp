#include "words/word_counts.h"

#include <algorithm>
#include <utility>

#include "words/word_split.h"

namespace stoker {
namespace {

void count(WordTable& words, std::vector<std::int64_t>& counts, std::string_view word, std::int64_t times) {
    const auto number = static_cast<std::size_t>(words.add(word));
    if (number == counts.size()) counts.push_back(0);
    counts[number] += times;
}

}  // namespace

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
    std::vector<std::string> found;
    found.reserve(order.size());
    for (const std::size_t i : order) found.emplace_back(words_.word(i));
    return found;
}

}  // namespace stoker
