#include "kernels/axis_loops.h"
#include "kernels/interleave.h"
#include "kernels/kernels.h"
#include "kernels/store_kernels.h"

namespace stoker {
namespace {

constexpr int kHalf = 1 << (kWeightBits - 1);

template <bool negative_lobes>
std::uint8_t level(std::int32_t sum) {
    const std::int32_t rounded = sum >> kWeightBits;
    return static_cast<std::uint8_t>(!negative_lobes ? rounded : rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
}

template <bool negative_lobes>
void run_horizontal(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    const std::int16_t* weights = pass.weights;
    for (int x = 0; x < pass.outputs; ++x, weights += pass.taps) {
        const std::uint8_t* source = rgb + 3 * static_cast<std::ptrdiff_t>(pass.first[x]);
        int r = kHalf, g = kHalf, b = kHalf;
        for (int t = 0; t < pass.taps; ++t, source += 3) {
            r += weights[t] * source[0];
            g += weights[t] * source[1];
            b += weights[t] * source[2];
        }
        planes[x] = level<negative_lobes>(r);
        planes[x + pass.plane] = level<negative_lobes>(g);
        planes[x + 2 * pass.plane] = level<negative_lobes>(b);
    }
}

template <bool negative_lobes>
void run_vertical(const VerticalPass& pass, std::uint8_t* out) {
    constexpr int block = 64;
    for (int x = 0; x < pass.bytes; x += block) {
        std::int32_t sums[block];
        for (std::int32_t& sum : sums) sum = kHalf;
        for (int t = 0; t < pass.taps; ++t) {
            const std::int32_t weight = pass.weights[t];
            if (weight == 0) continue;
            const std::uint8_t* row = pass.rows[t] + x;
            for (int i = 0; i < block; ++i) sums[i] += weight * row[i];
        }
        for (int i = 0; i < block; ++i) out[x + i] = level<negative_lobes>(sums[i]);
    }
}

void prepare(HorizontalPass& pass) { pass.run = pass.negative_lobes ? run_horizontal<true> : run_horizontal<false>; }

void vertical(const VerticalPass& pass, std::uint8_t* out) {
    (pass.negative_lobes ? run_vertical<true> : run_vertical<false>)(pass, out);
}

}  // namespace

extern const Kernels plain_kernels;
constinit const Kernels plain_kernels = {
    .axis = axis,
    .prepare = prepare,
    .vertical = vertical,
    .store = store_row,
    .interleave = interleave,
    .deinterleave = deinterleave,
};

}  // namespace stoker
