#include "engine/batch.h"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace stoker {
namespace {

// Rounding in the caller's arithmetic; the resampler cuts off what lies outside the crop anyway.
constexpr double kTolerance = 1e-3;

// A batch of this size leaves the second cache before anybody reads it, and fetching its lines from memory
// only to overwrite them costs a sixth of the whole pass.
constexpr std::size_t kStreamedBytes = 4 << 20;

constexpr std::int32_t kMaxTileSide = 1 << 15;

bool within(std::int64_t start, std::int64_t length, std::int64_t size, std::int64_t least) {
    return start >= 0 && length >= least && start <= size && length <= size - start;
}

bool ordered_within(double begin, double end, double low, double high) {
    return begin >= low - kTolerance && begin < end && end <= high + kTolerance;  // false for NaN
}

[[noreturn]] void refuse(std::size_t i, const char* rule) {
    throw std::invalid_argument("sample " + std::to_string(i) + " of the batch: " + rule);
}

}  // namespace

bool Extras::uses_mean(std::size_t i) const {
    return mean != nullptr && std::any_of(mean + 9 * i, mean + 9 * (i + 1), [](float share) { return share != 0; });
}

const double* Extras::warp_of(std::size_t i, int height, int width) const {
    constexpr double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    if (warp == nullptr) return nullptr;
    const double* matrix = warp + 9 * i;
    const bool is_output = canvas_height == height && canvas_width == width;
    return is_output && std::equal(matrix, matrix + 9, identity) ? nullptr : matrix;
}

bool Extras::needs_whole_image(std::size_t i) const {
    return uses_mean(i) || std::any_of(steps.begin(), steps.end(), [i](const auto& step) { return step->applies(i); });
}

void Batch::check() const {
    int height = 0, width = 0;
    for (std::size_t i = 0; i < count; ++i) {
        find_frame(i, height, width);
        if (extras.tile != nullptr) check_border(i);
        const Parameters p = parameters.at(i);
        if (!within(p.crop[0], p.crop[2], samples.height[i], 1) ||
            !within(p.crop[1], p.crop[3], samples.width[i], 1))
            refuse(i, "crop must have a pixel at least and lie within the image");
        if (!ordered_within(p.region[0], p.region[2], p.crop[0], p.crop[0] + p.crop[2]) ||
            !ordered_within(p.region[1], p.region[3], p.crop[1], p.crop[1] + p.crop[3]))
            refuse(i, "region must be (top, left, bottom, right), not empty, and lie within crop");
        if (!within(p.dest[0], p.dest[2], height, 0) || !within(p.dest[1], p.dest[3], width, 0))
            refuse(i, "dest must lie within the output, the canvas of a warp or the tile of a border");
        if (p.interpolation > Interpolation::lanczos) refuse(i, "interpolation must be from 0 to 3");
        for (const EraseColumn& erase : extras.erase) {
            const Rectangle box = erase.at(i);
            if (!within(box.top, box.height, options.height, 0) || !within(box.left, box.width, options.width, 0))
                refuse(i, "a box that is erased must lie within the output");
        }
    }
}

void Batch::check_border(std::size_t i) const {
    const std::int32_t* tile = extras.tile + 2 * i;
    const auto inside = [](const std::int32_t* indices, int outputs, std::int32_t size) {
        return size >= 1 && size <= kMaxTileSide &&
               std::all_of(indices, indices + outputs, [size](std::int32_t index) { return index >= 0 && index < size; });
    };
    const Border border = border_of(i);
    if (!inside(border.rows, bordered_height(), tile[0]) || !inside(border.columns, bordered_width(), tile[1]))
        refuse(i, "rows and columns of a border must lie within its tile, of 1 to 32768 pixels a side");
}

Border Batch::border_of(std::size_t i) const {
    if (extras.tile == nullptr) return {};
    return {extras.border.rows + i * static_cast<std::size_t>(bordered_height()),
            extras.border.columns + i * static_cast<std::size_t>(bordered_width())};
}

int Batch::bordered_height() const { return extras.warp != nullptr ? extras.canvas_height : options.height; }
int Batch::bordered_width() const { return extras.warp != nullptr ? extras.canvas_width : options.width; }

void Batch::find_frame(std::size_t i, int& height, int& width) const {
    height = bordered_height();
    width = bordered_width();
    if (extras.tile == nullptr) return;
    height = extras.tile[2 * i];
    width = extras.tile[2 * i + 1];
}

Target Batch::target(std::size_t i) const {
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

Geometry Batch::geometry(std::size_t i, Orientation orientation) const {
    Geometry geometry;
    geometry.warp = extras.warp_of(i, options.height, options.width);
    geometry.canvas_height = extras.canvas_height;
    geometry.canvas_width = extras.canvas_width;
    find_frame(i, geometry.frame_height, geometry.frame_width);
    geometry.placement = placement_of(parameters.at(i), orientation, samples.height[i], samples.width[i],
                               geometry.frame_height, geometry.frame_width);
    geometry.nearest = geometry.warp != nullptr && extras.nearest != nullptr && extras.nearest[i];
    geometry.border = border_of(i);
    geometry.height = options.height;
    geometry.width = options.width;
    geometry.fill = parameters.fill;
    return geometry;
}

Rectangle Batch::dest(std::size_t i) const {
    if (extras.tile != nullptr || extras.warp_of(i, options.height, options.width) != nullptr)
        return {0, 0, options.height, options.width};
    return placement_of(parameters.at(i), {}, samples.height[i], samples.width[i], options.height, options.width).dest;
}

bool Batch::claim(std::size_t& i) {
    i = next_.fetch_add(1, std::memory_order_relaxed);
    return i < count;
}

void Batch::finish(std::size_t i, Status result, const char* message) {
    finish_stores();
    status[i] = static_cast<std::uint8_t>(result);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (result != Status::ok) keep_reason(i, message);
    if (++completed_ == count) finished_.notify_all();
}

void Batch::keep_reason(std::size_t i, const char* message) noexcept {
    try {
        reasons_.emplace_back(i, message);
    } catch (const std::bad_alloc&) {  // then the status must do
    }
}

void Batch::cancel() {
    for (std::size_t i; claim(i);) finish(i, Status::read_error, "the engine was closed before it was read");
}

void Batch::wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [&] { return completed_ == count; });
}

bool Batch::done() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return completed_ == count;
}

std::string Batch::reason(std::size_t i) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [position, text] : reasons_)
        if (position == i) return text;
    return {};
}

}  // namespace stoker
