#include "engine/images/image_array.h"

#include <algorithm>

namespace stoker {
namespace {

// Larger batches are written past the caches. They leave the second-level cache before they are read, and fetching
// cache lines only to overwrite them takes a sixth of the whole time.
constexpr std::size_t kStreamedBytes = 4 << 20;

}  // namespace

Size ImageArray::output_of(std::size_t i) const {
    if (parameters.image_size == nullptr) return output;
    return {parameters.image_size[2 * i], parameters.image_size[2 * i + 1]};
}

Target ImageArray::target(std::size_t i) const {
    const std::size_t bytes = output.pixels() * channels_of(layout) * size_of(dtype);
    Target target;
    target.out = static_cast<std::uint8_t*>(out) + i * bytes;
    target.bytes = bytes;
    target.dtype = dtype;
    target.layout = layout;
    const Size size = output_of(i);
    target.height = size.height;
    target.width = size.width;
    target.array_height = output.height;
    target.array_width = output.width;
    target.color = parameters.color + 12 * i;
    target.fill = parameters.fill;
    target.stream = count * bytes >= kStreamedBytes;
    return target;
}

Geometry ImageArray::geometry(std::size_t i, Orientation orientation, Size source) const {
    Geometry geometry;
    geometry.warp = warp_of(i);
    geometry.canvas = canvas_size(i);
    geometry.frame = frame_size(i);
    geometry.output = output_of(i);
    geometry.resize = resize_of(parameters.at(i), orientation, source, geometry.frame);
    geometry.nearest = geometry.warp != nullptr && parameters.nearest != nullptr && parameters.nearest[i];
    geometry.border = border_of(i);
    geometry.fill = parameters.fill;
    // With a margin of 1, photographs differ from their full decoding by up to 7 levels on average; with 2, by less
    // than 2.
    geometry.margin = exact ? 0 : 2;
    return geometry;
}

Rectangle ImageArray::dest(std::size_t i) const {
    const Size size = output_of(i);
    if (parameters.tile != nullptr || warp_of(i) != nullptr) return {0, 0, size.height, size.width};
    return resize_of(parameters.at(i), {}, {}, size).dest;
}

bool ImageArray::uses_mean(std::size_t i) const {
    const float* mean = parameters.mean_matrix;
    return mean != nullptr && std::any_of(mean + 9 * i, mean + 9 * (i + 1), [](float share) { return share != 0; });
}

bool ImageArray::needs_whole_image(std::size_t i) const {
    return uses_mean(i) || has_last_steps(i) ||
           std::any_of(steps.begin(), steps.end(), [i](const auto& step) { return step->applies(i); });
}

Size ImageArray::canvas_size(std::size_t i) const {
    if (parameters.warp == nullptr) return output_of(i);
    return {parameters.canvas[0], parameters.canvas[1]};
}

Size ImageArray::frame_size(std::size_t i) const {
    if (parameters.tile == nullptr) return canvas_size(i);
    return {parameters.tile[2 * i], parameters.tile[2 * i + 1]};
}

const double* ImageArray::warp_of(std::size_t i) const {
    constexpr double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    if (parameters.warp == nullptr) return nullptr;
    const double* matrix = parameters.warp + 9 * i;
    return canvas_size(i) == output_of(i) && std::equal(matrix, matrix + 9, identity) ? nullptr : matrix;
}

Border ImageArray::border_of(std::size_t i) const {
    if (parameters.tile == nullptr) return {};
    return {parameters.border_rows.row(i), parameters.border_columns.row(i)};
}

}  // namespace stoker
