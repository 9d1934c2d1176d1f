#include "kernels/step_kernels.h"
#include "kernels/step_loops.h"

namespace stoker {
namespace {

void warp(const WarpPass& pass, std::uint8_t* planes) {
    for (int k = 0; k < pass.outputs; ++k) {
        const std::int16_t* weights_x = pass.table_x + pass.weights_x[k];
        const std::int16_t* weights_y = pass.table_y + pass.weights_y[k];
        const std::uint8_t* from = pass.source + pass.offset[k];
        int sums[3] = {kWarpHalf, kWarpHalf, kWarpHalf};
        for (int y = 0; y < pass.taps_y; ++y, from += pass.stride) {
            int r = 0, g = 0, b = 0;
            for (int x = 0; x < pass.taps_x; ++x) {
                r += weights_x[x] * from[3 * x];
                g += weights_x[x] * from[3 * x + 1];
                b += weights_x[x] * from[3 * x + 2];
            }
            sums[0] += (r >> kWarpShift) * weights_y[y];
            sums[1] += (g >> kWarpShift) * weights_y[y];
            sums[2] += (b >> kWarpShift) * weights_y[y];
        }
        for (int c = 0; c < 3; ++c)
            planes[c * pass.plane + k] = static_cast<std::uint8_t>(sums[c] >> (2 * kWeightBits - kWarpShift));
    }
}

}  // namespace

extern const StepKernels plain_step_kernels;
const StepKernels plain_step_kernels = {
    apply_lut, sum, range, sharpen, blur_down, blur_across, add, round_all, locate_row, map_points, weigh_points, warp};

}  // namespace stoker
