// The loops of steps and warps, which the compiler vectorises. A file of each instruction set includes this
// one; see store_kernels.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/float_x16.h"
#include "kernels/steps/step_kernels.h"
#include "kernels/rounding.h"

namespace stoker {
namespace {

constexpr int kBlock = 64;  // values that are computed at once: a multiple of any vector's size

inline void apply_lut(const std::uint8_t* table, std::uint8_t* values, int count) {
    for (int x = 0; x < count; ++x) values[x] = table[values[x]];
}

inline std::uint64_t sum(const std::uint8_t* values, int count) {
    std::uint32_t total = 0;  // a row has at most 32768 values, so 32 bits are enough
    for (int x = 0; x < count; ++x) total += values[x];
    return total;
}

inline void range(const std::uint8_t* values, int count, std::uint8_t* low, std::uint8_t* high) {
    std::uint8_t smallest = *low, largest = *high;
    for (int x = 0; x < count; ++x) {
        smallest = values[x] < smallest ? values[x] : smallest;
        largest = values[x] > largest ? values[x] : largest;
    }
    *low = smallest;
    *high = largest;
}

// The stages are loops over numbers of one size each, so that vectors are full.
inline void sharpen(const std::uint8_t* const rows[3], double amount, int count, std::uint8_t* out) {
    for (int x = 1; x < count - 1; x += kBlock) {
        const std::uint8_t *above = rows[0] + x - 1, *here = rows[1] + x - 1, *below = rows[2] + x - 1;
        std::int16_t distance[kBlock];
        std::int32_t change[kBlock];
        std::uint8_t block[kBlock];
        for (int i = 0; i < kBlock; ++i) {
            const auto sum = static_cast<std::uint16_t>(above[i] + above[i + 1] + above[i + 2] + here[i] +
                                                        5 * here[i + 1] + here[i + 2] + below[i] + below[i + 1] +
                                                        below[i + 2] + 6);
            const auto smooth = static_cast<std::uint16_t>(sum * 5042U >> 16);  // sum / 13, for all sums that occur
            distance[i] = static_cast<std::int16_t>(smooth - here[i + 1]);
        }
        for (int i = 0; i < kBlock; ++i) change[i] = round_down(amount * distance[i]);
        for (int i = 0; i < kBlock; ++i)
            block[i] = static_cast<std::uint8_t>(clamped(here[i + 1] + change[i], 0, 255));
        const int left = count - 1 - x;
        std::memcpy(out + x, block, static_cast<std::size_t>(left < kBlock ? left : kBlock));
    }
}

// Computes weighted sums of a block over `taps` rows of uint8 or float; row(t) points to the block in row t.
template <class Row>
inline void sum_rows(const Row& row, const float* weights, int taps, float* out) {
    FloatX16 sums[4];
    for (int t = 0; t < taps; ++t) {
        const auto* from = row(t);
        for (int i = 0; i < 4; ++i) sums[i].add(weights[t], FloatX16::of(from + 16 * i));
    }
    for (int i = 0; i < 4; ++i) sums[i].store(out + 16 * i);
}

inline void blur_down(const std::uint8_t* const* rows, const float* weights, int taps, int count, float* out) {
    for (int x = 0; x < count; x += kBlock) sum_rows([&](int t) { return rows[t] + x; }, weights, taps, out + x);
}

inline void blur_across(const float* row, const float* weights, int taps, int count, std::uint8_t* out) {
    for (int x = 0; x < count; x += kBlock) {
        float sums[kBlock];
        sum_rows([&](int t) { return row + x + t; }, weights, taps, sums);
        for (int i = 0; i < kBlock; ++i) out[x + i] = to_uint8(sums[i]);
    }
}

#if defined(__AVX512F__)
constexpr int kVector = 64;  // bytes
#elif defined(__AVX2__)
constexpr int kVector = 32;
#else
constexpr int kVector = 16;
#endif

inline void sum_pairs(const double* const* rows, const double* weights, int pairs, int count, double* out) {
    using Lanes [[gnu::vector_size(kVector), gnu::aligned(8)]] = double;
    constexpr int lanes = kVector / static_cast<int>(sizeof(double)), parts = kDoubles / lanes;
    const auto load = [](const double* from, Lanes& to) { std::memcpy(&to, from, sizeof to); };
    for (int x = 0; x < count; x += kDoubles) {
        Lanes sums[parts];
        for (int i = 0; i < parts; ++i) {
            load(rows[0] + x + i * lanes, sums[i]);
            sums[i] *= weights[0];
        }
        for (int pair = 1; pair <= pairs; ++pair)
            for (int i = 0; i < parts; ++i) {
                Lanes one, other;
                load(rows[2 * pair - 1] + x + i * lanes, one);
                load(rows[2 * pair] + x + i * lanes, other);
                sums[i] += (one + other) * weights[pair];
            }
        std::memcpy(out + x, sums, sizeof sums);
    }
}

inline void add(const std::uint8_t* values, float weight, int count, float* sums) {
    for (int x = 0; x < count; x += kBlock)
        for (int i = 0; i < kBlock; ++i) sums[x + i] += weight * static_cast<float>(values[x + i]);
}

inline void round_all(const float* sums, int count, std::uint8_t* values) {
    for (int x = 0; x < count; x += kBlock)
        for (int i = 0; i < kBlock; ++i) values[x + i] = to_uint8(sums[x + i]);
}

// Computes the first taps of a block of outputs from `first` on, and the indices of their weights. Within a
// block, 16 fraction bits are enough, and a coordinate is the sum of the block's and a small one.
inline void locate(const LocateAxis& axis, int first, std::int32_t* __restrict pixels,
                   std::int32_t* __restrict weights) {
    constexpr int bits = 16, dropped = kFractionBits - bits;
    const std::int64_t begin = axis.begin + first * axis.step + (1 << (kFractionBits - kPhaseBits - 1));
    const auto whole = static_cast<std::int32_t>(begin >> kFractionBits);
    const auto rest = static_cast<std::int32_t>((begin >> dropped) & ((1 << bits) - 1));
    const auto step = static_cast<std::int32_t>(axis.step >> dropped);
    const std::int32_t low = axis.low, high = axis.high, taps = axis.taps;
    for (int i = 0; i < kBlock; ++i) {
        const std::int32_t position = rest + i * step;
        const std::int32_t pixel = whole + (position >> bits);
        pixels[i] = clamped(pixel, low, high);
        weights[i] = ((position >> (bits - kPhaseBits)) & ((1 << kPhaseBits) - 1)) * taps;
    }
}

inline void locate_row(const LocatePass& pass) {
    const std::int64_t stride_x = pass.x.stride, stride_y = pass.y.stride;
    for (int x = 0; x < pass.outputs; x += kBlock) {
        std::int32_t pixels_x[kBlock], pixels_y[kBlock];
        locate(pass.x, x, pixels_x, pass.weights_x + x);
        locate(pass.y, x, pixels_y, pass.weights_y + x);
        std::int64_t* __restrict offset = pass.offset + x;
        for (int i = 0; i < kBlock; ++i) offset[i] = pixels_x[i] * stride_x + pixels_y[i] * stride_y;
    }
}

// Maps sample points, in stages as in sharpen().
inline void map_points(const double* matrix, double column, double row, SamplePoints& points) {
    double m[9];
    std::memcpy(m, matrix, sizeof m);  // otherwise the compiler must assume that `points` overlaps the matrix
    const double x_here = m[1] * row + m[2], y_here = m[4] * row + m[5], w_here = m[7] * row + m[8];
    double x[kSamplePoints], y[kSamplePoints], per_w[kSamplePoints], square_x[kSamplePoints], square_y[kSamplePoints];
    for (int i = 0; i < kSamplePoints; ++i) {
        const double at = column + i;
        const double w = m[6] * at + w_here;
        per_w[i] = w > 0 ? 1 / w : -1;
        x[i] = clamped((m[0] * at + x_here) * per_w[i], -kFarAway, kFarAway);
        y[i] = clamped((m[3] * at + y_here) * per_w[i], -kFarAway, kFarAway);
    }
    for (int i = 0; i < kSamplePoints; ++i) {
        const double x_column = (m[0] - x[i] * m[6]) * per_w[i], x_row = (m[1] - x[i] * m[7]) * per_w[i];
        const double y_column = (m[3] - y[i] * m[6]) * per_w[i], y_row = (m[4] - y[i] * m[7]) * per_w[i];
        const bool visible = per_w[i] > 0;
        square_x[i] = visible ? clamped(x_column * x_column + x_row * x_row, 1.0, kFarAway * kFarAway) : 1;
        square_y[i] = visible ? clamped(y_column * y_column + y_row * y_row, 1.0, kFarAway * kFarAway) : 1;
        points.x[i] = visible ? x[i] : -kFarAway;
        points.y[i] = visible ? y[i] : -kFarAway;
    }
    for (int i = 0; i < kSamplePoints; ++i) {
        points.support_x[i] = __builtin_sqrtf(static_cast<float>(square_x[i]));
        points.support_y[i] = __builtin_sqrtf(static_cast<float>(square_y[i]));
    }
}

// Computes weights as in PhaseTable, without a table. The nearest tap gets the remainder of rounding.
inline void weigh_points(const WeighPass& pass) {
    float offset[kSamplePoints], slope[kSamplePoints], factor[kSamplePoints];
    std::int32_t left[kSamplePoints], nearest[kSamplePoints];
    float heights[kPointTaps][kSamplePoints];
    std::int32_t rounded[kPointTaps][kSamplePoints];
    const std::int32_t low = pass.low, high = pass.high;
    for (int i = 0; i < kSamplePoints; ++i) {
        const double center = pass.centers[i] - pass.origin;
        const double start = center - static_cast<double>(pass.supports[i]) + 0.5;
        const std::int32_t first = round_down(start);
        offset[i] = static_cast<float>(first + 0.5 - center);
        slope[i] = 1 / pass.supports[i];
        nearest[i] = static_cast<std::int32_t>(0.5F - offset[i]);
        left[i] = 1 << kWeightBits;
        factor[i] = 0;
        pass.first[i] = clamped(first, low, high);
    }
    for (int t = 0; t < pass.taps; ++t)
        for (int i = 0; i < kSamplePoints; ++i) {
            const float distance = offset[i] + static_cast<float>(t);
            const float height = 1 - (distance < 0 ? -distance : distance) * slope[i];
            heights[t][i] = height > 0 ? height : 0;
            factor[i] += heights[t][i];
        }
    for (int i = 0; i < kSamplePoints; ++i) factor[i] = (1 << kWeightBits) / factor[i];
    for (int t = 0; t < pass.taps; ++t)
        for (int i = 0; i < kSamplePoints; ++i) {
            rounded[t][i] = static_cast<std::int32_t>(heights[t][i] * factor[i] + 0.5F);
            left[i] -= rounded[t][i];
        }
    for (int t = 0; t < pass.taps; ++t)
        for (int i = 0; i < kSamplePoints; ++i)
            pass.weights[i * pass.taps + t] =
                static_cast<std::int16_t>(rounded[t][i] + (nearest[i] == t ? left[i] : 0));
}

inline void warp(const WarpPass& pass, std::uint8_t* planes) {
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

// The kernels of an instruction set without those that are written by hand for it.
constexpr StepKernels kStepLoops = {
    .apply_lut = apply_lut,
    .sum = sum,
    .range = range,
    .sharpen = sharpen,
    .blur_down = blur_down,
    .blur_across = blur_across,
    .sum_pairs = sum_pairs,
    .add = add,
    .round = round_all,
    .locate = locate_row,
    .map_points = map_points,
    .weigh_points = weigh_points,
    .warp = warp,
};

}  // namespace
}  // namespace stoker
