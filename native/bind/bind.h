// Types and helpers that the files of the binding share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace stoker {

namespace nb = nanobind;
using namespace nanobind::literals;

template <class T, class... Shape>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu, Shape...>;
template <class T, int... shape>
using Rows = Array<const T, nb::shape<-1, shape...>>;
template <class T>
using Vector = Array<const T, nb::ndim<1>>;
using RgbArray = Array<const std::uint8_t, nb::shape<-1, -1, 3>>;

// A view of a C-contiguous Python object with the buffer protocol.
class Buffer {
  public:
    explicit Buffer(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    ~Buffer() { PyBuffer_Release(&view_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    const std::uint8_t* data() const { return static_cast<const std::uint8_t*>(view_.buf); }
    std::size_t size() const { return static_cast<std::size_t>(view_.len); }

  private:
    Py_buffer view_{};
};

// Throws ValueError with this message unless the condition holds.
inline void require(bool condition, const char* message) {
    if (!condition) throw nb::value_error(message);
}

// Executes `work` without the GIL, and returns its result.
template <class Work>
auto without_gil(Work work) {
    const nb::gil_scoped_release release;
    return work();
}

// Returns a capsule that deletes `owned` when Python drops the last reference to it.
template <class T>
nb::capsule capsule_of(std::unique_ptr<T> owned) {
    using Pointer = typename std::unique_ptr<T>::pointer;
    const nb::capsule capsule(owned.get(), [](void* p) noexcept { std::default_delete<T>()(static_cast<Pointer>(p)); });
    owned.release();
    return capsule;
}

// Returns a NumPy array that owns its values.
template <class T>
nb::ndarray<nb::numpy, T> array_of(std::unique_ptr<T[]> values, std::initializer_list<std::size_t> shape) {
    T* data = values.get();
    return nb::ndarray<nb::numpy, T>(data, shape, capsule_of(std::move(values)));
}

template <class T>
nb::ndarray<nb::numpy, T> array_of(std::vector<T> values, std::initializer_list<std::size_t> shape) {
    auto kept = std::make_unique<std::vector<T>>(std::move(values));
    T* data = kept->data();
    return nb::ndarray<nb::numpy, T>(data, shape, capsule_of(std::move(kept)));
}

template <class T>
nb::ndarray<nb::numpy, T> array_of(std::vector<T> values) {
    const std::size_t size = values.size();
    return array_of(std::move(values), {size});
}

void bind_buffer_pool(nb::module_& m);
void bind_channels(nb::module_& m);
void bind_columns(nb::module_& m);
void bind_files(nb::module_& m);
void bind_lists(nb::module_& m);
void bind_masks(nb::module_& m);
void bind_objects(nb::module_& m);
void bind_shards(nb::module_& m);
void bind_steps(nb::module_& m);
void bind_payloads(nb::module_& m);
void bind_pool(nb::module_& m);
void bind_restarts(nb::module_& m);
void bind_tokens(nb::module_& m);
void bind_transcode(nb::module_& m);

}  // namespace stoker
