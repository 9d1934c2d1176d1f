// The columns of a batch's parameters: stoker.augment.params.ImageParams, as C++ reads it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pixels/noise.h"
#include "pixels/rectangle.h"
#include "records/column.h"
#include "resample/resize.h"

namespace stoker {

struct ParameterColumns {
    const std::int32_t* crop;
    const double* region;
    const std::int32_t* dest;
    const bool* flip;
    const float* color;
    const std::uint8_t* fill;
    const std::uint8_t* interpolation;  // null: bilinear
    const float* mean_matrix;           // null: none
    const double* warp;                 // null: no sample is warped
    const std::int32_t* canvas;
    const bool* nearest;       // null: no warp is nearest-neighbour
    const std::int32_t* tile;  // null: no borders
    RowsOfAnySize<std::int32_t> border_rows;
    RowsOfAnySize<std::int32_t> border_columns;
    const std::int32_t* image_size;  // null: all images fill the output

    Parameters at(std::size_t i) const {
        const auto filter =
            interpolation == nullptr ? Interpolation::bilinear : static_cast<Interpolation>(interpolation[i]);
        return {crop + 4 * i, region + 4 * i, dest + 4 * i, flip + 2 * i, filter};
    }
};

// A column has the name of the attribute of ImageParams that it holds.
inline constexpr Column kParameterColumns[] = {
    per_sample<&ParameterColumns::crop>("crop", {4}),
    per_sample<&ParameterColumns::region>("region", {4}),
    per_sample<&ParameterColumns::dest>("dest", {4}),
    per_sample<&ParameterColumns::flip>("flip", {2}),
    per_sample<&ParameterColumns::color>("color", {3, 4}),
    per_batch<&ParameterColumns::fill>("fill", {3}),
    optional(per_sample<&ParameterColumns::interpolation>("interpolation")),
    optional(per_sample<&ParameterColumns::mean_matrix>("mean_matrix", {3, 3})),
    optional(per_sample<&ParameterColumns::warp>("warp.matrix", {3, 3})),
    optional(per_batch<&ParameterColumns::canvas>("warp.canvas", {2})),
    optional(per_sample<&ParameterColumns::nearest>("warp.nearest")),
    optional(per_sample<&ParameterColumns::tile>("border.size", {2})),
    optional(per_sample<&ParameterColumns::border_rows>("border.rows", {kAnySize})),
    optional(per_sample<&ParameterColumns::border_columns>("border.columns", {kAnySize})),
    optional(per_sample<&ParameterColumns::image_size>("image_size", {2})),
};

// The columns of a box that is erased in each image: stoker.augment.params.Erase.
struct EraseColumns {
    const std::int32_t* box;
    const float* value;
    const std::uint64_t* keys;  // null: no noise
    const float* deviation;
    const float* quantiles;

    Rectangle box_of(std::size_t i) const { return {box[4 * i], box[4 * i + 1], box[4 * i + 2], box[4 * i + 3]}; }
    Noise noise_of(std::size_t i) const {
        return {quantiles, keys[i], {value[0], value[1], value[2]}, {deviation[0], deviation[1], deviation[2]}};
    }
};

// A column has the name of the attribute of Erase that it holds, except for the quantiles, which all noise shares.
inline constexpr Column kEraseColumns[] = {
    per_sample<&EraseColumns::box>("box", {4}),
    per_batch<&EraseColumns::value>("value", {3}),
    optional(per_sample<&EraseColumns::keys>("noise.keys")),
    optional(per_batch<&EraseColumns::deviation>("noise.deviation", {3})),
    optional(per_batch<&EraseColumns::quantiles>("quantiles", {kNoiseQuantiles})),
};

}  // namespace stoker
