// The work of one batch, as data: what is read, what is done to it, and where the results go.
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

// The longest side of an image of a batch, of a canvas and of a tile.
constexpr int kMaxSide = 1 << 15;

struct BatchOptions {
    DType dtype = DType::float32;
    Layout layout = Layout::nchw;
    int height = 0;
    int width = 0;
    std::int64_t max_pixels = 0;
    bool verify = true;
    bool decode_only = false;
};

struct BatchWork {
    std::size_t count = 0;
    std::shared_ptr<const DataFiles> files;
    SampleColumns samples{};
    ParameterColumns parameters{};
    Steps steps;
    std::vector<EraseColumns> erase;
    std::vector<RgbView> decoded;  // by position; without data for samples that are decoded here
    BatchOptions options;
    void* out = nullptr;
    std::uint8_t* status = nullptr;

    // Throws std::invalid_argument for parameters that would lead outside an image.
    void check() const;

    // The image of sample `i` in the batch.
    Target target(std::size_t i) const;
    Geometry geometry(std::size_t i, Orientation orientation) const;
    // The rectangle that rows are rendered for: dest, or the whole output where the sample is warped or has a border.
    Rectangle dest(std::size_t i) const;
    bool uses_mean(std::size_t i) const;
    // Whether the whole image must be there before any of it can be stored.
    bool needs_whole_image(std::size_t i) const;

  private:
    void check_optional() const;
    void check_border(std::size_t i) const;
    // The size of the canvas of a warp, or of the output.
    Size canvas_size() const;
    // The size that dest refers to: that of the tile within a border, of the canvas, or of the output.
    Size frame_size(std::size_t i) const;
    // The matrix of a sample that is warped; null for one whose canvas is the output.
    const double* warp_of(std::size_t i) const;
    Border border_of(std::size_t i) const;
};

}  // namespace stoker
