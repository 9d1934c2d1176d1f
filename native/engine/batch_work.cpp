#include "engine/batch_work.h"

#include <algorithm>

namespace stoker {
namespace {

// Larger batches are written past the caches. They leave the second-level cache before they are read, and fetching
// cache lines only to overwrite them takes a sixth of the whole time.
constexpr std::size_t kStreamedBytes = 4 << 20;

}  // namespace

Target BatchWork::target(std::size_t i) const {
    const std::size_t bytes = static_cast<std::size_t>(options.height) * static_cast<std::size_t>(options.width) *
                              channels_of(options.layout) * size_of(options.dtype);
    Target target;
    target.out = static_cast<std::uint8_t*>(out) + i * bytes;
    target.bytes = bytes;
    target.dtype = options.dtype;
    target.layout = options.layout;
    target.height = options.height;
    target.width = options.width;
    target.color = parameters.color + 12 * i;
    target.fill = parameters.fill;
    target.stream = count * bytes >= kStreamedBytes;
    return target;
}

Geometry BatchWork::geometry(std::size_t i, Orientation orientation) const {
    Geometry geometry;
    geometry.warp = warp_of(i);
    geometry.canvas = canvas_size();
    geometry.frame = frame_size(i);
    geometry.output = {options.height, options.width};
    const Size source{samples.height[i], samples.width[i]};
    geometry.placement = placement_of(parameters.at(i), orientation, source, geometry.frame);
    geometry.nearest = geometry.warp != nullptr && parameters.nearest != nullptr && parameters.nearest[i];
    geometry.border = border_of(i);
    geometry.fill = parameters.fill;
    // With a margin of 1, photographs differ from their full decoding by up to 7 levels on average; with 2, by less
    // than 2.
    geometry.margin = options.exact ? 0 : 2;
    return geometry;
}

Rectangle BatchWork::dest(std::size_t i) const {
    if (parameters.tile != nullptr || warp_of(i) != nullptr) return {0, 0, options.height, options.width};
    const Size source{samples.height[i], samples.width[i]}, output{options.height, options.width};
    return placement_of(parameters.at(i), {}, source, output).dest;
}

bool BatchWork::uses_mean(std::size_t i) const {
    const float* mean = parameters.mean_matrix;
    return mean != nullptr && std::any_of(mean + 9 * i, mean + 9 * (i + 1), [](float share) { return share != 0; });
}

bool BatchWork::needs_whole_image(std::size_t i) const {
    return uses_mean(i) || std::any_of(steps.begin(), steps.end(), [i](const auto& step) { return step->applies(i); });
}

Size BatchWork::canvas_size() const {
    if (parameters.warp == nullptr) return {options.height, options.width};
    return {parameters.canvas[0], parameters.canvas[1]};
}

Size BatchWork::frame_size(std::size_t i) const {
    if (parameters.tile == nullptr) return canvas_size();
    return {parameters.tile[2 * i], parameters.tile[2 * i + 1]};
}

const double* BatchWork::warp_of(std::size_t i) const {
    constexpr double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    if (parameters.warp == nullptr) return nullptr;
    const double* matrix = parameters.warp + 9 * i;
    const bool is_output = canvas_size() == Size{options.height, options.width};
    return is_output && std::equal(matrix, matrix + 9, identity) ? nullptr : matrix;
}

Border BatchWork::border_of(std::size_t i) const {
    if (parameters.tile == nullptr) return {};
    return {parameters.border_rows.row(i), parameters.border_columns.row(i)};
}

}  // namespace stoker
