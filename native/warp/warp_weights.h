// The filter weights along one axis of a warp.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/steps/step_kernels.h"

namespace stoker {

// Returns the sum of a triangle's values at all pixels, also those outside of an image: the triangle lies about `center`
// and reaches `support` to both sides.
double triangle_sum(double center, double support);

// The table of the weights of one support. It has a row for each phase: the fraction of the first tap's
// coordinate, in 1 << kPhaseBits parts.
class PhaseTable {
  public:
    // Larger supports are rare, and their tables would be large.
    static constexpr double kMaxSupport = 16;

    void set(double support);
    int taps() const { return taps_; }  // even
    const std::int16_t* weights() const { return weights_.data(); }
    // Returns LocateAxis::begin for an output whose centre lies here in the source.
    std::int64_t begin(double center) const;

  private:
    double support_ = 0;
    int taps_ = 0;
    std::vector<std::int16_t> weights_;
};

// Weights of a few outputs whose supports differ and may have any size. Source pixels have the numbers 0 to
// size - 1; the pixels -1 and `size` stand for everything outside.
class PointWeights {
  public:
    void begin(int size);
    void add(double center, double support);
    void finish();
    int taps() const { return taps_; }  // even; taps read the pixels -1 to size + 1
    int first(int i) const { return entries_[static_cast<std::size_t>(i)].first; }
    const std::int16_t* weights() const { return weights_.data(); }

  private:
    struct Entry {
        double center, support;
        int first, end;
        bool clipped_before, clipped_after;
    };
    void compute(const Entry& entry, std::int16_t* weights);

    int size_ = 0;
    int taps_ = 0;
    std::vector<Entry> entries_;
    std::vector<double> values_;
    std::vector<std::int16_t> weights_;
};

}  // namespace stoker
