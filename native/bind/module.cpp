// The Python module stoker._native: conversion of arguments and exceptions, and nothing else.
#include <stdexcept>
#include <system_error>

#include "bind/bind.h"
#include "decode/codecs.h"
#include "decode/header.h"
#include "decode/jpeg/jpeg_decoder.h"
#include "cpu/cpu.h"
#include "engine/stage_trace.h"
#include "records/crc32c.h"

namespace stoker {
namespace {

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

std::int64_t start_trace() {
    StageTrace::start();
    return StageTrace::now();
}

nb::list take_trace() {
    nb::list spans;
    for (const StageSpan& span : StageTrace::take())
        spans.append(nb::make_tuple(span.thread, static_cast<int>(span.stage), span.began, span.end));
    return spans;
}

// Zeros end the display of ranges. The struct is never freed, because threads may be inside a range.
void set_range_functions(std::uintptr_t push, std::uintptr_t pop) {
    if (push == 0 || pop == 0) return StageRange::set(nullptr);
    StageRange::set(new RangeFunctions{reinterpret_cast<int (*)(const char*)>(push), reinterpret_cast<int (*)()>(pop)});
}

void translate(const std::exception_ptr& pointer, void*) {
    try {
        std::rethrow_exception(pointer);
    } catch (const std::system_error& error) {
        // OSError with an errno makes an instance of its subclass, for example FileNotFoundError.
        const nb::object os_error = nb::borrow(PyExc_OSError)(error.code().value(), error.what());
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(os_error.ptr())), os_error.ptr());
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
    m.def("trace_start", start_trace);
    m.def("trace_take", take_trace);
    m.def("set_range_functions", set_range_functions, "push"_a, "pop"_a);
    m.def("cpu_level", [] { return name(cpu_level()); });
    m.def("jpeg_decoder", [] { return uses_own_jpeg_decoder() ? "stoker" : "libjpeg-turbo"; });
    nb::list decoded;
    nb::dict libraries;
    for (const CodecEntry& entry : decoded_codecs()) {
        decoded.append(static_cast<int>(entry.codec));
        if (!entry.library.empty()) libraries[std::string(entry.name).c_str()] = entry.library;
    }
    m.attr("DECODED_CODECS") = nb::tuple(decoded);
    m.attr("LIBRARIES") = libraries;
    m.def("probe", probe_of, "data"_a);
    bind_columns(m);
    bind_buffer_pool(m);
    bind_channels(m);
    bind_files(m);
    bind_lists(m);
    bind_masks(m);
    bind_objects(m);
    bind_shards(m);
    bind_payloads(m);
    bind_steps(m);
    bind_pool(m);
    bind_restarts(m);
    bind_tokens(m);
    bind_transcode(m);
}
