// The filter weights of one axis of a resize.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "resample/span.h"

namespace stoker {

constexpr int kAxisSlack = 64;  // elements that may be read past the end of `first` and `weights`

// Each output reads the source pixels [first, first + taps). Their weights sum to 1 << kWeightBits; unused taps at
// the end have weight 0.
struct Axis {
    int outputs = 0;
    int taps = 0;  // even
    bool negative_lobes = false;  // some weights are negative
    std::vector<std::int32_t> first;    // `outputs` elements, then slack
    std::vector<std::int16_t> weights;  // `outputs` * `taps` elements, then slack

    // Computes the weights of Pillow's antialiased filters (precompute_coeffs in Resample.c). They widen as the image
    // shrinks. At the borders they are cut off and normalised again. For `nearest` an output takes the pixel that
    // contains its centre; if the centre lies on an edge, the pixel to the right. Without antialiasing, pixels at the
    // borders continue the image. If `reversed`, the outputs run from the end of the span to its beginning. The span
    // must have low <= begin < end <= high, up to rounding, and low < high.
    void set(const Span& span, bool reversed, Interpolation interpolation);

    int begin() const;  // the first source pixel of all outputs
    int end() const;    // past the last source pixel: `high`, or a few more
    void translate(int by);  // adds `by` to the source coordinates

  private:
    AxisPass pass_of(const Span& span, bool reversed, double radius);
    void set_triangles(const Span& span, bool reversed);
    template <class Filter>
    void set_filter(const Span& span, bool reversed, double radius, Filter filter);
    void set_nearest(const Span& span, bool reversed);
    template <class Filter>
    void set_plain(const Span& span, bool reversed, int radius, Filter filter);
    void reserve(int outputs, int taps);

    std::vector<float> offset_;   // from each output's centre to its first source pixel
    std::vector<float> values_;  // of the filter, for one output
};

}  // namespace stoker
