#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/images/image_array.h"

namespace stoker {
namespace {

// A tolerance for rounding in the caller's arithmetic. The resampler reads nothing outside the crop in any case.
constexpr double kTolerance = 1e-3;

bool within(std::int64_t start, std::int64_t length, std::int64_t size, std::int64_t min_length) {
    return start >= 0 && length >= min_length && start <= size && length <= size - start;
}

bool ordered_within(double begin, double end, double low, double high) {
    return begin >= low - kTolerance && begin < end && end <= high + kTolerance;  // false for NaN
}

bool is_side(std::int32_t side) { return side >= 1 && side <= kMaxSide; }

void require(bool condition, const char* rule) {
    if (!condition) throw std::invalid_argument(rule);
}

void require(bool condition, std::size_t i, const char* rule) {
    if (!condition) throw std::invalid_argument("image " + std::to_string(i) + " of the batch: " + rule);
}

}  // namespace

void ImageArray::check(const SampleColumns& samples, std::size_t sample_count) const {
    check_optional();
    for (std::size_t i = 0; i < count; ++i) {
        if (parameters.image_size != nullptr) check_size(i);
        if (parameters.tile != nullptr) check_border(i);
        const Size frame = frame_size(i), source{samples.height[i % sample_count], samples.width[i % sample_count]};
        const Parameters p = parameters.at(i);
        require(within(p.crop[0], p.crop[2], source.height, 1) && within(p.crop[1], p.crop[3], source.width, 1),
                i, "crop must have at least one pixel and lie within the image");
        require(ordered_within(p.region[0], p.region[2], p.crop[0], p.crop[0] + p.crop[2]) &&
                    ordered_within(p.region[1], p.region[3], p.crop[1], p.crop[1] + p.crop[3]),
                i, "region must be (top, left, bottom, right), not empty, and lie within crop");
        require(within(p.dest[0], p.dest[2], frame.height, 0) && within(p.dest[1], p.dest[3], frame.width, 0), i,
                "dest must lie within the output, the canvas of a warp or the tile of a border");
        require(p.interpolation <= kLastInterpolation, i, "interpolation must be from 0 to 5");
        for (const EraseColumns& column : erase) {
            const Rectangle box = column.box_of(i);
            require(within(box.top, box.height, output_of(i).height, 0) &&
                        within(box.left, box.width, output_of(i).width, 0), i,
                    "the box of an erase must lie within the output");
        }
    }
}

void ImageArray::check_optional() const {
    const ParameterColumns& p = parameters;
    require((p.warp != nullptr) == (p.canvas != nullptr), "warp.matrix and warp.canvas must be given together");
    require(p.nearest == nullptr || p.warp != nullptr, "warp.nearest needs warp.matrix");
    require(p.canvas == nullptr || (is_side(p.canvas[0]) && is_side(p.canvas[1])),
            "warp.canvas, the canvas of a warp, must have 1 to 32768 pixels a side");
    const bool has_border = p.tile != nullptr;
    require(has_border == (p.border_rows.data != nullptr) && has_border == (p.border_columns.data != nullptr),
            "border.size, border.rows and border.columns must be given together");
    require(!has_border || p.image_size == nullptr, "a border and image_size cannot be given together");
    const Size canvas = count == 0 ? output : canvas_size(0);
    require(!has_border || (p.border_rows.row_size == static_cast<std::size_t>(canvas.height) &&
                            p.border_columns.row_size == static_cast<std::size_t>(canvas.width)),
            "a border must have as many rows and columns as the output, or the canvas of a warp");
    for (const EraseColumns& column : erase)
        require(column.keys == nullptr || (column.deviation != nullptr && column.quantiles != nullptr),
                "noise.keys needs noise.deviation and quantiles");
}

void ImageArray::check_size(std::size_t i) const {
    const Size size = output_of(i);
    require(size.height >= 1 && size.width >= 1 && size.height <= output.height && size.width <= output.width, i,
            "image_size must have at least one pixel a side and lie within the output");
}

void ImageArray::check_border(std::size_t i) const {
    const std::int32_t* tile = parameters.tile + 2 * i;
    const auto inside = [&](const RowsOfAnySize<std::int32_t>& indices, std::int32_t size) {
        const std::int32_t* row = indices.row(i);
        return is_side(size) && std::all_of(row, row + indices.row_size,
                                            [size](std::int32_t index) { return index >= 0 && index < size; });
    };
    require(inside(parameters.border_rows, tile[0]) && inside(parameters.border_columns, tile[1]), i,
            "rows and columns of a border must lie within its tile, of 1 to 32768 pixels a side");
}

}  // namespace stoker
