// The work of one batch, as data: its samples, their parameters, and the output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/parameter_columns.h"
#include "engine/renderer.h"
#include "pixels/image_writer.h"
#include "pixels/rgb_view.h"
#include "records/sample_columns.h"
#include "records/shards.h"
#include "steps/step.h"

namespace stoker {

// The maximum height and width of an image of a batch, of a canvas and of a tile.
constexpr int kMaxSide = 1 << 15;

struct BatchOptions {
    DType dtype = DType::float32;
    Layout layout = Layout::nchw;
    int height = 0;
    int width = 0;
    std::int64_t max_pixels = 0;
    bool verify = true;
    bool decode_only = false;
    bool exact = false;
};

struct BatchWork {
    std::size_t count = 0;
    std::shared_ptr<const DataFiles> files;
    SampleColumns samples{};
    ParameterColumns parameters{};
    Steps steps;
    std::vector<EraseColumns> erase;
    std::vector<RgbView> decoded;  // by position; empty for samples that C++ decodes
    BatchOptions options;
    void* out = nullptr;
    std::uint8_t* status = nullptr;

    // Throws std::invalid_argument for parameters that lead outside an image.
    void check() const;

    // Returns where and how the image of sample `i` is stored.
    Target target(std::size_t i) const;
    Geometry geometry(std::size_t i, Orientation orientation) const;
    // Returns the rectangle that is rendered: dest, or the whole output if the sample is warped or has a
    // border.
    Rectangle dest(std::size_t i) const;
    bool uses_mean(std::size_t i) const;
    // Whether the whole image must be rendered before any row of it can be stored.
    bool needs_whole_image(std::size_t i) const;

  private:
    void check_optional() const;
    void check_border(std::size_t i) const;
    // Returns the size of the canvas of a warp, or of the output.
    Size canvas_size() const;
    // Returns the size of the image that dest lies in: the tile of a border, the canvas, or the output.
    Size frame_size(std::size_t i) const;
    // Returns the matrix of a sample, or null if it is not warped, because its canvas is the output.
    const double* warp_of(std::size_t i) const;
    Border border_of(std::size_t i) const;
};

}  // namespace stoker
