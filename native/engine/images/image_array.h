// An array of images that a batch makes of its samples, as data: the images' parameters, and the output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/last_steps/last_steps.h"
#include "engine/images/parameter_columns.h"
#include "engine/images/renderer.h"
#include "pixels/image_writer.h"
#include "records/sample_columns.h"
#include "steps/step.h"

namespace stoker {

// The maximum height and width of an image of a batch, of a canvas and of a tile.
constexpr int kMaxSide = 1 << 15;

// Images of one size: one or several views of each sample, view by view. Of N samples, image i shows sample i % N.
struct ImageArray {
    std::size_t count = 0;
    ParameterColumns parameters{};
    Steps steps;
    std::shared_ptr<const LastSteps> last_steps;  // after `steps`; null for none
    std::vector<EraseColumns> erase;
    DType dtype = DType::float32;
    Layout layout = Layout::nchw;
    Size output;  // of the array; see output_of()
    bool exact = false;
    void* out = nullptr;

    // Throws std::invalid_argument for parameters that lead outside an image.
    void check(const SampleColumns& samples, std::size_t sample_count) const;

    // Returns the size of image `i`, which lies at the top left of its slot in the array; the rest of the slot is zeros.
    Size output_of(std::size_t i) const;
    // Returns where and how image `i` is stored.
    Target target(std::size_t i) const;
    // `source` is the size of the oriented image.
    Geometry geometry(std::size_t i, Orientation orientation, Size source) const;
    // Returns the rectangle that is rendered: dest, or the whole output if the image is warped or has a border.
    Rectangle dest(std::size_t i) const;
    bool uses_mean(std::size_t i) const;
    bool has_last_steps(std::size_t i) const { return last_steps != nullptr && last_steps->applies(i); }
    // Whether the whole image must be rendered before any row of it can be stored.
    bool needs_whole_image(std::size_t i) const;

  private:
    void check_optional() const;
    void check_border(std::size_t i) const;
    void check_size(std::size_t i) const;
    // Returns the size of the canvas of a warp, or of the output.
    Size canvas_size(std::size_t i) const;
    // Returns the size of the image that dest lies in: the tile of a border, the canvas, or the output.
    Size frame_size(std::size_t i) const;
    // Returns the matrix of an image; null without a warp, or if the warp changes nothing.
    const double* warp_of(std::size_t i) const;
    Border border_of(std::size_t i) const;
};

}  // namespace stoker
