#include "bind/engine/python_steps.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

namespace stoker {
namespace {

// Returns an array of NumPy that owns its memory.
template <class T>
nb::object array_of(std::unique_ptr<T[]> data, std::initializer_list<std::size_t> shape) {
    const nb::capsule owner(data.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data.release(), shape, owner));
}

}  // namespace

PythonSteps::PythonSteps(const Vector<bool>& where, nb::callable function, bool takes_several)
    : where_(where.data(), where.data() + where.shape(0)),
      function_(std::move(function)),
      takes_several_(takes_several) {}

PythonSteps::~PythonSteps() {
    const nb::gil_scoped_acquire acquire;
    function_.reset();
}

void PythonSteps::run(std::span<const std::size_t> rows, std::span<PlanarImage> images) const {
    const auto height = static_cast<std::size_t>(images.front().height());
    const auto width = static_cast<std::size_t>(images.front().width());
    const std::size_t bytes = 3 * height * width;
    // New memory, since a step may keep the array.
    auto pixels = std::make_unique_for_overwrite<std::uint8_t[]>(images.size() * bytes);
    for (std::size_t k = 0; k < images.size(); ++k) images[k].interleave(pixels.get() + k * bytes);
    const nb::gil_scoped_acquire acquire;
    nb::object changed;
    if (takes_several_) {
        auto positions = std::make_unique_for_overwrite<std::int64_t[]>(rows.size());
        std::ranges::copy(rows, positions.get());
        changed = function_(array_of(std::move(positions), {rows.size()}),
                            array_of(std::move(pixels), {images.size(), height, width, 3}));
    } else {
        changed = function_(rows.front(), array_of(std::move(pixels), {height, width, 3}));
    }
    const auto array = nb::cast<Array<const std::uint8_t>>(changed);
    if (array.size() != images.size() * bytes) throw std::runtime_error("a function of last steps changed the shape");
    for (std::size_t k = 0; k < images.size(); ++k) images[k].deinterleave(array.data() + k * bytes);
}

}  // namespace stoker
