// The kernels of steps and warps, one table for each instruction set. All tables give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace stoker {

constexpr int kFractionBits = 24;  // of a coordinate in the source
constexpr int kPhaseBits = 8;      // the fraction bits that choose the weights

// One axis of an affine warp, along one row of the output: output i has its first tap at begin + i * step, in
// pixels with kFractionBits fraction bits, clamped to [low, high].
struct LocateAxis {
    std::int64_t begin = 0, step = 0;  // a step is less than 32 pixels, so that a block of steps fits into 32 bits
    std::int32_t low = 0, high = 0;
    std::int64_t stride = 0;  // bytes from one source pixel to the next, along this axis
    int taps = 0;
};

// A row of outputs. Kernels write where the taps of each output lie, in bytes, and where their weights lie, in
// elements of a table. The table of an axis has `taps` weights for each of 1 << kPhaseBits phases. Kernels write up
// to a multiple of 64 outputs.
struct LocatePass {
    LocateAxis x, y;
    int outputs = 0;
    std::int64_t* offset = nullptr;
    std::int32_t* weights_x = nullptr;
    std::int32_t* weights_y = nullptr;
};

constexpr int kSamplePoints = 64;  // consecutive outputs of a row that are computed at once

// The limit of coordinates and supports, in pixels of the source; beyond it there is only fill.
constexpr double kFarAway = 1e9;

// Points of the source that consecutive outputs show, each with the supports of its filter; see WarpMap::at().
struct SamplePoints {
    double x[kSamplePoints], y[kSamplePoints];
    float support_x[kSamplePoints], support_y[kSamplePoints];
};

// One axis of sample points. Kernels write the first tap of each point, as a pixel that counts from `origin` and is
// clamped to [low, high], and `taps` weights. `taps` is even, at least twice any support, and at most kPointTaps.
constexpr int kPointTaps = 16;
struct WeighPass {
    const double* centers = nullptr;
    const float* supports = nullptr;
    double origin = 0;
    int taps = 0;
    std::int32_t low = 0, high = 0;
    std::int32_t* first = nullptr;
    std::int16_t* weights = nullptr;
};

// A row of outputs, each a weighted sum of taps_x * taps_y pixels of interleaved RGB. The numbers of taps are
// even, and weights sum to 1 << kWeightBits along each axis. Kernels take four outputs at once, so `offset`,
// `weights_x` and `weights_y` must be valid up to a multiple of four.
struct WarpPass {
    int outputs = 0;
    const std::uint8_t* source = nullptr;
    std::ptrdiff_t stride = 0;
    const std::int64_t* offset = nullptr;
    const std::int32_t* weights_x = nullptr;
    const std::int32_t* weights_y = nullptr;
    const std::int16_t* table_x = nullptr;
    const std::int16_t* table_y = nullptr;
    int taps_x = 0;
    int taps_y = 0;
    int plane = 0;
};

// Sums along a row are shifted down to 16 bits, and then summed along columns. kWarpHalf rounds the result, and
// corrects the mean error of the shift.
constexpr int kWarpShift = 7;
constexpr int kWarpHalf = (1 << (2 * kWeightBits - kWarpShift - 1)) + (1 << (kWeightBits - 1));

constexpr int kDoubles = 16;  // doubles that sum_pairs computes at once

// To add a kernel, add a member here, and a loop and an initialiser of kStepLoops in step_loops.h: without the
// initialiser the file does not compile. The table of each instruction set starts as kStepLoops and replaces
// the kernels that are written by hand for it.
//
// `count` is the number of values in a row of one channel. Kernels may write up to a multiple of 64 values.
struct StepKernels {
    void (*apply_lut)(const std::uint8_t* table, std::uint8_t* values, int count);
    std::uint64_t (*sum)(const std::uint8_t* values, int count);
    // Lowers `low` to the minimum of the values, and raises `high` to their maximum.
    void (*range)(const std::uint8_t* values, int count, std::uint8_t* low, std::uint8_t* high);
    // Sharpens the inner pixels of a row; see stoker.augment.steps.Sharpen. `amount` is 1 - factor.
    void (*sharpen)(const std::uint8_t* const rows[3], double amount, int count, std::uint8_t* out);
    void (*blur_down)(const std::uint8_t* const* rows, const float* weights, int taps, int count, float* out);
    void (*blur_across)(const float* row, const float* weights, int taps, int count, std::uint8_t* out);
    // Weighted sum of the first row, of the sum of the next two, of the sum of the two after these, and so on.
    // Reads and writes up to a multiple of kDoubles values.
    void (*sum_pairs)(const double* const* rows, const double* weights, int pairs, int count, double* out);
    void (*add)(const std::uint8_t* values, float weight, int count, float* sums);
    void (*round)(const float* sums, int count, std::uint8_t* values);
    void (*locate)(const LocatePass& pass);
    // Maps the outputs from the point (column, row) on, by a row-major 3x3 matrix.
    void (*map_points)(const double* matrix, double column, double row, SamplePoints& points);
    void (*weigh_points)(const WeighPass& pass);
    void (*warp)(const WarpPass& pass, std::uint8_t* planes);
};

// Returns the kernels of cpu_level().
const StepKernels& step_kernels();

}  // namespace stoker
