#include "bind/engine/buffer_pool.h"

namespace stoker {
namespace {

nb::dlpack::dtype dtype_named(const std::string& name) {
    if (name == "uint8") return nb::dtype<std::uint8_t>();
    if (name == "uint16") return nb::dtype<std::uint16_t>();
    if (name == "float32") return nb::dtype<float>();
    if (name == "float16") return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    throw nb::value_error("dtype must be uint8, uint16, float16 or float32");
}

nb::ndarray<nb::numpy> array(BufferPool& pool, const std::vector<std::size_t>& shape, const std::string& dtype) {
    const nb::dlpack::dtype type = dtype_named(dtype);
    std::size_t bytes = type.bits / 8;
    for (const std::size_t size : shape)
        if (__builtin_mul_overflow(bytes, size, &bytes)) throw nb::value_error("shape is too large");
    return array_of(std::make_unique<Lease>(pool.shared_from_this(), bytes), shape, type);
}

}  // namespace

nb::ndarray<nb::numpy> array_of(std::unique_ptr<Lease> lease, const std::vector<std::size_t>& shape, nb::dlpack::dtype type) {
    void* memory = lease->memory();
    return nb::ndarray<nb::numpy>(memory, shape.size(), shape.data(), capsule_of(std::move(lease)), nullptr, type);
}

void bind_buffer_pool(nb::module_& m) {
    nb::class_<BufferPool>(m, "BufferPool")
        .def(nb::new_([](std::size_t keep) { return std::make_shared<BufferPool>(keep); }), "keep"_a)
        .def("keep_at_least", &BufferPool::keep_at_least, "keep"_a)
        .def("array", array, "shape"_a, "dtype"_a);
}

}  // namespace stoker
