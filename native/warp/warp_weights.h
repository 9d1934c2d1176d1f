// Weights along one axis of a warp.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/step_kernels.h"

namespace stoker {

// For one support: weights of the taps by the fraction of the first tap's place, so that a pixel's weights
// are looked up.
class PhaseTable {
  public:
    // Larger supports are rare, and their tables large.
    static constexpr double kMaxSupport = 16;

    void set(double support);
    int taps() const { return taps_; }  // even
    const std::int16_t* weights() const { return weights_.data(); }
    // The source coordinate, with kPositionBits after the point, from which LocateAxis counts.
    std::int64_t begin(double center) const;

  private:
    double support_ = 0;
    int taps_ = 0;
    std::vector<std::int16_t> weights_;
};

// For any supports: weights of a few outputs one by one. Pixels are those from 0 to size - 1; what lies
// outside is seen as pixels -1 and `size`.
class PointWeights {
  public:
    void begin(int size);
    void add(double center, double support);
    void finish();
    int taps() const { return taps_; }  // even; pixels -1 to size + 1 are read
    int first(int i) const { return spots_[static_cast<std::size_t>(i)].first; }
    const std::int16_t* weights() const { return weights_.data(); }

  private:
    struct Entry {
        double center, support;
        int first, end;
        bool clipped_before, clipped_after;
    };
    void weigh(const Entry& entry, std::int16_t* weights);

    int size_ = 0;
    int taps_ = 0;
    std::vector<Entry> spots_;
    std::vector<double> heights_;
    std::vector<std::int16_t> weights_;
};

}  // namespace stoker
