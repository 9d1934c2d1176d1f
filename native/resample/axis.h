// Filter weights of one axis of a resize.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "resample/span.h"

namespace stoker {

constexpr int kAxisSlack = 64;  // elements that may be read past the end of either column

// For each output sample the source samples [first, first + taps) and their weights, which sum to
// 1 << kWeightBits; unused taps at the end have weight 0.
struct Axis {
    int outputs = 0;
    int taps = 0;  // even
    bool negative_lobes = false;  // some weights are negative
    std::vector<std::int32_t> first;    // outputs, and slack
    std::vector<std::int16_t> weights;  // outputs * taps, and slack

    // Pillow's antialiased filters (precompute_coeffs in Resample.c): as much wider as the image shrinks,
    // cut off and renormalised at the borders. Or the sample that an output's centre falls into, the right
    // one of two. Outputs go backwards if `reversed`. Needs low <= begin < end <= high, up to rounding, and
    // low < high.
    void set(const Span& span, bool reversed, Interpolation interpolation);

    int begin() const;  // the first source sample of all
    int end() const;    // past the last one, `high` or a few more: the slack of kernels
    void shift(int by);  // to other source coordinates

  private:
    AxisPass pass_of(const Span& span, bool reversed, double radius);
    void set_triangles(const Span& span, bool reversed);
    template <class Filter>
    void set_filter(const Span& span, bool reversed, double radius, Filter filter);
    void set_nearest(const Span& span, bool reversed);
    void reserve(int outputs, int taps);

    std::vector<float> offset_;   // of each output's first sample from its centre
    std::vector<float> heights_;  // of one output's filter
};

}  // namespace stoker
