// Executes a warp: source rows in, rows of the output out.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/step_kernels.h"
#include "pixels/planar_image.h"
#include "pixels/rectangle.h"
#include "pixels/row_sink.h"
#include "warp/warp_map.h"
#include "warp/warp_weights.h"

namespace stoker {

// Keeps the window of the source that the outputs reach, with a margin of fill, as interleaved RGB.
class Warper {
  public:
    // Prepares for `map`, which speaks of a source at the size in which its rows will be pushed. The window
    // returned is what to push, row by row; it may be empty.
    const Window& begin(const WarpMap& map, const Footprint& footprint, int height, int width, const std::uint8_t* fill);
    // The next row of the window, interleaved RGB.
    void push(const std::uint8_t* rgb);
    // Once all rows are there.
    void finish(RowSink& sink);
    // All of it, from the pixels of a image: `matrix` leads from an output to it.
    void run(const PlanarImage& image, const double* matrix, int height, int width, const std::uint8_t* fill,
             RowSink& sink);

  private:
    void frame();
    void paint(std::uint8_t* pixels, int count) const;
    void uniform(RowSink& sink);
    void warp_by_phase(int y);
    void warp_by_points(int y);
    void weigh(float most_x, float most_y);
    void weigh_one_by_one();
    std::uint8_t* origin();  // of the window's first pixel

    const StepKernels& kernels_ = step_kernels();
    WarpMap map_;
    Window window_{};
    int height_ = 0, width_ = 0;  // of the output
    const std::uint8_t* fill_ = nullptr;
    bool by_phase_ = false;
    int before_ = 0, after_ = 0;  // pixels of margin on each side of the window
    std::size_t stride_ = 0;
    int next_row_ = 0;
    PhaseTable phases_x_, phases_y_;
    SamplePoints spots_;
    std::int32_t first_x_[kSamplePoints], first_y_[kSamplePoints];
    std::int16_t block_weights_[2][kSamplePoints * kPointTaps];
    PointWeights point_weights_x_, point_weights_y_;  // where supports are too large for the above
    WarpPass pass_;
    std::vector<std::uint8_t> source_;
    std::vector<std::uint8_t> line_;
    std::vector<std::uint8_t> rgb_;  // a row of a picture
    std::vector<std::int64_t> offset_;
    std::vector<std::int32_t> weights_x_, weights_y_;
};

}  // namespace stoker
