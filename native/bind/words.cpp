#include <memory>
#include <string_view>
#include <utility>

#include "bind/bind.h"
#include "words/word_counts.h"
#include "words/word_ids.h"

namespace stoker {
namespace {

// The texts of a Python sequence in UTF-8, which stay alive as long as this object.
class Texts {
  public:
    explicit Texts(nb::handle sequence) : kept_(sequence) {
        views_.reserve(kept_.size());
        for (const nb::handle text : kept_) {
            Py_ssize_t size = 0;
            const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
            if (data == nullptr) throw nb::python_error();
            views_.emplace_back(data, static_cast<std::size_t>(size));
        }
    }
    const std::vector<std::string_view>& views() const { return views_; }

  private:
    nb::tuple kept_;
    std::vector<std::string_view> views_;
};

template <class T>
nb::object array_of(std::vector<T> values) {
    auto* kept = new std::vector<T>(std::move(values));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// The ids of words: the position of a word in the given list.
class WordIds {
  public:
    explicit WordIds(nb::handle words) {
        const Texts texts(words);
        for (const std::string_view word : texts.views()) table_.add(word);
    }
    nb::tuple encode(nb::handle given, bool places) const {
        const Texts texts(given);
        EncodedWords found;
        {
            const nb::gil_scoped_release release;
            found = encode_words(table_, texts.views(), places);
        }
        return nb::make_tuple(array_of(std::move(found.ids)), array_of(std::move(found.lengths)),
                              array_of(std::move(found.starts)), array_of(std::move(found.ends)));
    }

  private:
    WordTable table_;
};

void add_texts(WordCounts& counts, nb::handle given) {
    const Texts texts(given);
    const nb::gil_scoped_release release;
    counts.add(texts.views());
}

}  // namespace

void bind_words(nb::module_& m) {
    nb::class_<WordIds>(m, "WordIds")
        .def(nb::init<nb::handle>(), "words"_a)
        .def("encode", &WordIds::encode, "texts"_a, "places"_a = false);
    nb::class_<WordCounts>(m, "WordCounts")
        .def(nb::init<>())
        .def("add", add_texts, "texts"_a)
        .def("frequent", &WordCounts::frequent, "least"_a, "most"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace stoker
