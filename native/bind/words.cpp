#include <string_view>
#include <utility>

#include "bind/bind.h"
#include "words/words.h"

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

// The id of a word is its index in the list.
class WordIds {
  public:
    explicit WordIds(nb::handle words) {
        const Texts texts(words);
        for (const std::string_view word : texts.views()) table_.add(word);
    }
    nb::tuple encode(nb::handle python_texts, bool with_offsets) const {
        const Texts texts(python_texts);
        EncodedWords encoded = without_gil([&] { return encode_words(table_, texts.views(), with_offsets); });
        return nb::make_tuple(array_of(std::move(encoded.ids)), array_of(std::move(encoded.lengths)),
                              array_of(std::move(encoded.starts)), array_of(std::move(encoded.ends)));
    }

  private:
    WordTable table_;
};

void add_texts(WordCounts& counts, nb::handle python_texts) {
    const Texts texts(python_texts);
    const nb::gil_scoped_release release;
    counts.add(texts.views());
}

}  // namespace

void bind_words(nb::module_& m) {
    nb::class_<WordIds>(m, "WordIds")
        .def(nb::init<nb::handle>(), "words"_a)
        .def("encode", &WordIds::encode, "texts"_a, "with_offsets"_a = false);
    nb::class_<WordCounts>(m, "WordCounts")
        .def(nb::init<>())
        .def("add", add_texts, "texts"_a)
        .def("frequent", &WordCounts::frequent, "least"_a, "most"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace stoker
