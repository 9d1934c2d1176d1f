// The execution of a warp: it takes rows of the source and returns rows of the output.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/steps/step_kernels.h"
#include "pixels/planar_image.h"
#include "pixels/rectangle.h"
#include "pixels/row_sink.h"
#include "warp/warp_map.h"
#include "warp/warp_weights.h"

namespace stoker {

// Keeps the window of the source that the outputs read, as interleaved RGB with a margin of fill.
class Warper {
  public:
    // Prepares a warp by `map`, whose source has the size at which push() takes its rows. Returns the window to push,
    // which may be empty.
    const Window& begin(const WarpMap& map, const Footprint& footprint, int height, int width,
                        const std::uint8_t* fill);
    // Takes the next row of the window, interleaved RGB.
    void push(const std::uint8_t* rgb);
    // Computes the output, after all rows were pushed.
    void finish(RowSink& sink);
    // Warps a whole image; `matrix` maps points of the output to the image.
    void run(const PlanarImage& image, const double* matrix, int height, int width, const std::uint8_t* fill,
             RowSink& sink);

  private:
    void fill_margin();
    void paint(std::uint8_t* pixels, int count) const;
    void uniform(RowSink& sink);
    void warp_by_phase(int y);
    void warp_by_points(int y);
    void set_weights(float max_x, float max_y);
    void set_large_weights();
    std::uint8_t* origin();  // the window's first pixel

    const StepKernels& kernels_ = step_kernels();
    WarpMap map_;
    Window window_{};
    int height_ = 0, width_ = 0;  // of the output
    const std::uint8_t* fill_ = nullptr;
    bool by_phase_ = false;
    int margin_ = 0;  // pixels on each side of the window
    std::size_t stride_ = 0;
    int next_row_ = 0;
    PhaseTable phases_x_, phases_y_;
    SamplePoints points_;
    std::int32_t first_x_[kSamplePoints], first_y_[kSamplePoints];
    std::int16_t block_weights_[2][kSamplePoints * kPointTaps];
    PointWeights point_weights_x_, point_weights_y_;  // for supports that are too large for block_weights_
    WarpPass pass_;
    std::vector<std::uint8_t> source_;
    std::vector<std::uint8_t> line_;
    std::vector<std::uint8_t> rgb_;  // a row of an image
    std::vector<std::int64_t> offset_;
    std::vector<std::int32_t> weights_x_, weights_y_;
};

}  // namespace stoker
