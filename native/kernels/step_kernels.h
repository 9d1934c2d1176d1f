// The loops of steps and warps, for each instruction set. All give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace stoker {

constexpr int kPositionBits = 24;  // of a place in the source after the point
constexpr int kPhaseBits = 8;      // of them that tables of weights tell apart

// An axis of a warp along one row of the output: sample i has its first tap at `begin + i * step`, in
// pixels with kPositionBits after the point, clamped to [low, high].
struct LocateAxis {
    std::int64_t begin = 0, step = 0;  // less than 32 pixels a step, for 32 bits to hold a block of them
    std::int32_t low = 0, high = 0;
    std::int64_t stride = 0;  // bytes from one source pixel to the next along this axis
    int taps = 0;
};

// Where the taps of a row of outputs lie, in bytes, and their weights, in elements of tables that hold
// `taps` weights for each of 1 << kPhaseBits phases. Columns are written up to a multiple of 64.
struct LocatePass {
    LocateAxis x, y;
    int outputs = 0;
    std::int64_t* offset = nullptr;
    std::int32_t* weights_x = nullptr;
    std::int32_t* weights_y = nullptr;
};

constexpr int kSamplePoints = 64;  // neighbours in a row of the output that are placed and weighed at once

// What lies farther away in the source, in pixels, or is shrunk more, is nothing but fill.
constexpr double kFarAway = 1e9;

// Where a projective map leads, and how far the filter reaches there: see WarpMap::at().
struct SamplePoints {
    double x[kSamplePoints], y[kSamplePoints];
    float support_x[kSamplePoints], support_y[kSamplePoints];
};

// One axis of spots: first taps, in pixels from `origin` on, clamped to [low, high], and `taps` weights of
// each, an even number of at least twice any support and at most kSpotTaps.
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

// A row of outputs, each a weighted sum of taps_x * taps_y pixels of interleaved RGB. Numbers of taps are
// even, weights sum to 1 << kWeightBits along each axis. Kernels read four outputs at once: the columns
// below must hold valid numbers up to a multiple of four.
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

// Sums along a row are cut to 16 bits before the sums along columns, which loses half a unit in the mean.
constexpr int kWarpShift = 7;
constexpr int kWarpHalf = (1 << (2 * kWeightBits - kWarpShift - 1)) + (1 << (kWeightBits - 1));

// A new kernel is a member here, a loop in step_loops.h and a line of kStepLoops there, which every instruction set
// starts from; a table that lacks a member does not compile. What is written by hand for an instruction set replaces
// the loop in the table of its own file.
//
// `count` is the number of values in a row of one channel. Kernels may write up to a multiple of 64 values.
struct StepKernels {
    void (*apply_lut)(const std::uint8_t* table, std::uint8_t* levels, int count);
    std::uint64_t (*sum)(const std::uint8_t* levels, int count);
    // Lowers `low` and raises `high`.
    void (*range)(const std::uint8_t* levels, int count, std::uint8_t* low, std::uint8_t* high);
    // Inner pixels of a row: their distance from the smoothed image times `amount` is added. See Sharpen.
    void (*sharpen)(const std::uint8_t* const rows[3], double amount, int count, std::uint8_t* out);
    void (*blur_down)(const std::uint8_t* const* rows, const float* weights, int taps, int count, float* out);
    void (*blur_across)(const float* row, const float* weights, int taps, int count, std::uint8_t* out);
    void (*add)(const std::uint8_t* levels, float weight, int count, float* sums);
    void (*round)(const float* sums, int count, std::uint8_t* levels);
    void (*locate)(const LocatePass& pass);
    // Of outputs from the place (column, row) on, by a row-major 3x3 matrix.
    void (*map_points)(const double* matrix, double column, double row, SamplePoints& points);
    void (*weigh_points)(const WeighPass& pass);
    void (*warp)(const WarpPass& pass, std::uint8_t* planes);
};

// Those of cpu_level().
const StepKernels& step_kernels();

}  // namespace stoker
