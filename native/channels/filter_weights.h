// The filter weights of one axis in floats, for images whose levels need more than the 14 bits of resample/axis.h.
#pragma once

#include <utility>
#include <vector>

#include "resample/span.h"

namespace stoker {

// Output i is the sum of the pixels first[i], first[i] + 1, ... of the source, count[i] of them, times their weights,
// which begin at weights[i * taps] and sum to 1.
struct FilterWeights {
    int taps = 0;  // of the output that has the most
    std::vector<int> first, count;
    std::vector<float> weights;

    // Computes the weights of Pillow's antialiased filters (precompute_coeffs in Resample.c), which are cut off at the
    // ends [low, high) of the span and normalised again. For `nearest` an output takes the pixel that contains its
    // centre. Without antialiasing, pixels at the ends continue the image.
    void set(const Span& span, Interpolation interpolation);
    // Returns the first pixel that outputs read, and the pixel after the last. There must be an output.
    std::pair<int, int> reach() const;

  private:
    template <class Filter>
    void set_filter(const Span& span, double radius, Filter filter);
    template <class Filter>
    void set_plain(const Span& span, int radius, Filter filter);
};

}  // namespace stoker
