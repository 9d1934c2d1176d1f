// The Python module: conversion of arguments, and nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <system_error>

#include "cpu.h"
#include "crc32c.h"
#include "header.h"
#include "shards.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker {
namespace {

// A C-contiguous view of anything with the buffer protocol.
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
    Py_buffer view_;
};

std::uint32_t crc32c_of(nb::handle data, std::uint32_t value) {
    const Buffer buffer(data);
    const nb::gil_scoped_release release;
    return crc32c(buffer.data(), buffer.size(), value);
}

std::tuple<int, int, int, int, int> probe_of(nb::handle data) {
    const Buffer buffer(data);
    const Header header = probe(buffer.data(), buffer.size());
    return {static_cast<int>(header.codec), header.width, header.height, header.orientation, header.channels};
}

using View = nb::ndarray<nb::memview, const std::uint8_t, nb::ndim<1>>;

View view_of(const Shards& shards, std::int64_t shard, std::int64_t offset, std::int64_t length) {
    struct Owner {
        std::shared_ptr<const DataFile> file;
        std::vector<std::uint8_t> storage;
    };
    auto owner = std::make_unique<Owner>();
    owner->file = shards.file(shard, offset, length);
    Payload payload;
    {
        const nb::gil_scoped_release release;
        payload = owner->file->read(offset, length, owner->storage);
    }
    const nb::capsule capsule(owner.release(), [](void* p) noexcept { delete static_cast<Owner*>(p); });
    return View(payload.data, {payload.size}, capsule);
}

using Int32s = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Int64s = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void will_need(const Shards& shards, Int32s shard, Int64s offset, Int64s length) {
    if (offset.size() != shard.size() || length.size() != shard.size())
        throw nb::value_error("shard, offset and length must have one length");
    std::vector<Range> ranges;
    ranges.reserve(shard.size());
    for (std::size_t i = 0; i < shard.size(); ++i)
        ranges.push_back({shard.data()[i], offset.data()[i], length.data()[i]});
    const nb::gil_scoped_release release;
    shards.will_need(std::move(ranges));
}

void bind_shards(nb::module_& m) {
    nb::class_<Shards>(m, "Shards")
        .def(
            "__init__",
            [](Shards* self, const std::vector<std::string>& paths, const std::vector<std::int64_t>& sizes,
               bool mapped) {
                if (paths.size() != sizes.size()) throw nb::value_error("paths and sizes must have one length");
                new (self) Shards(paths, sizes, mapped);
            },
            "paths"_a, "sizes"_a, "mapped"_a = true)
        .def("view", view_of, "shard"_a, "offset"_a, "length"_a)
        .def("will_need", will_need, "shard"_a, "offset"_a, "length"_a)
        .def("close", &Shards::close);
}

void translate(const std::exception_ptr& pointer, void*) {
    try {
        std::rethrow_exception(pointer);
    } catch (const std::system_error& error) {
        // OSError(errno, message, path) becomes FileNotFoundError and its like.
        nb::object os_error = nb::borrow(PyExc_OSError)(error.code().value(), error.what());
        PyErr_SetObject(PyExc_OSError, os_error.ptr());
    } catch (const std::length_error& error) {
        PyErr_SetString(PyExc_OSError, error.what());
    } catch (const std::out_of_range& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    }
}

}  // namespace
}  // namespace stoker

NB_MODULE(_native, m) {
    using namespace stoker;
    nb::register_exception_translator(translate);
    m.def("crc32c", crc32c_of, "data"_a, "value"_a = 0);
    m.def("cpu_level", [] { return name(cpu_level()); });
    m.def("probe", probe_of, "data"_a);
    bind_shards(m);
}
