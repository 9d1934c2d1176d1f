// Filter weights of one axis of a resize.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

constexpr int kAxisSlack = 64;   // elements that may be read past the end of either column
constexpr int kWeightBits = 14;  // 1.0 is 16384, the largest power of two within int16

// For each output sample the source samples [first, first + taps) and their weights, which sum to
// 1 << kWeightBits; unused taps at the end have weight 0.
struct Axis {
    int outputs = 0;
    int taps = 0;  // even
    std::vector<std::int32_t> first;    // outputs, and slack
    std::vector<std::int16_t> weights;  // outputs * taps, and slack

    // Pillow's antialiased bilinear filter (precompute_coeffs in Resample.c): a triangle as wide as the
    // scale when shrinking, cut off and renormalised at the borders. [begin, end) of the source becomes
    // `outputs` samples, backwards if `reversed`; samples outside [low, high) are not used. Needs
    // low <= begin < end <= high, up to rounding, and low < high.
    void set(double begin, double end, int low, int high, int outputs, bool reversed);

    int begin() const;  // the first source sample of all
    int end() const;    // past the last one, `high` or one more at most
    void shift(int by);  // to other source coordinates
};

// Weights of `count` samples, the first of which lies `offset` from the centre of a triangle that falls by
// `slope`, with a sum of 1 << kWeightBits. What rounding leaves goes to the tallest.
void weigh_triangle(float offset, float slope, int count, int tallest, std::int16_t* weights);

}  // namespace stoker
