// The filter weights of one axis of a resize.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "resample/span.h"

namespace stoker {

constexpr int kAxisSlack = 64;  // elements that may be read past the end of `first` and `weights`

// For each output the source pixels [first, first + taps) and their weights. The weights of an output sum to
// 1 << kWeightBits, and unused taps at the end have weight 0.
struct Axis {
    int outputs = 0;
    int taps = 0;  // even
    bool negative_lobes = false;  // some weights are negative
    std::vector<std::int32_t> first;    // `outputs` elements, then slack
    std::vector<std::int16_t> weights;  // `outputs` * `taps` elements, then slack

    // Computes the weights of Pillow's antialiased filters (precompute_coeffs in Resample.c), which widen as
    // the image shrinks, and are cut off and normalised again at the borders. For `nearest` an output takes the
    // pixel that its centre falls into, the right one where it falls between two. `reversed` outputs go
    // backwards. The span must have low <= begin < end <= high, up to rounding, and low < high.
    void set(const Span& span, bool reversed, Interpolation interpolation);

    int begin() const;  // the first source pixel of all outputs
    int end() const;    // past the last source pixel: `high`, or a few more
    void shift(int by);  // moves the source coordinates

  private:
    AxisPass pass_of(const Span& span, bool reversed, double radius);
    void set_triangles(const Span& span, bool reversed);
    template <class Filter>
    void set_filter(const Span& span, bool reversed, double radius, Filter filter);
    void set_nearest(const Span& span, bool reversed);
    void reserve(int outputs, int taps);

    std::vector<float> offset_;   // from each output's centre to its first source pixel
    std::vector<float> values_;  // of the filter, for one output
};

}  // namespace stoker
