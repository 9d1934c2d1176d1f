#include "bind/engine/python_steps.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

namespace stoker {

PythonSteps::PythonSteps(const Vector<bool>& where, nb::callable function, BufferPool& memory, bool takes_several)
    : where_(where.data(), where.data() + where.shape(0)),
      function_(std::move(function)),
      memory_(memory.shared_from_this()),
      takes_several_(takes_several) {}

PythonSteps::~PythonSteps() {
    const nb::gil_scoped_acquire acquire;
    function_.reset();
}

void PythonSteps::run(std::span<const std::size_t> rows, std::span<PlanarImage> images) const {
    const auto height = static_cast<std::size_t>(images.front().height());
    const auto width = static_cast<std::size_t>(images.front().width());
    const std::size_t bytes = 3 * height * width;
    // Each call gets a new array, because a step may keep it.
    auto pixels = std::make_unique<Lease>(memory_, images.size() * bytes);
    auto* rgb = static_cast<std::uint8_t*>(pixels->memory());
    for (std::size_t k = 0; k < images.size(); ++k) images[k].interleave(rgb + k * bytes);
    const nb::gil_scoped_acquire acquire;
    const auto type = nb::dtype<std::uint8_t>();
    nb::object changed;
    if (takes_several_) {
        auto indices = std::make_unique<Lease>(memory_, rows.size() * sizeof(std::int64_t));
        std::ranges::copy(rows, static_cast<std::int64_t*>(indices->memory()));
        changed = function_(array_of(std::move(indices), {rows.size()}, nb::dtype<std::int64_t>()),
                            array_of(std::move(pixels), {images.size(), height, width, 3}, type));
    } else {
        changed = function_(rows.front(), array_of(std::move(pixels), {height, width, 3}, type));
    }
    const auto array = nb::cast<Array<const std::uint8_t>>(changed);
    if (array.size() != images.size() * bytes) throw std::runtime_error("a function of last steps changed the shape");
    for (std::size_t k = 0; k < images.size(); ++k) images[k].deinterleave(array.data() + k * bytes);
}

}  // namespace stoker
