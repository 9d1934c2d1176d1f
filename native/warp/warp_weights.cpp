#include "warp/warp_weights.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace stoker {
namespace {

constexpr int kPhases = 1 << kPhaseBits;

// Sum of 1 - d / support over d = distance, distance + 1, ... below support.
double half_sum(double distance, double support) {
    const double n = std::max(std::ceil(support - distance), 0.0);
    return n - (n * distance + n * (n - 1) / 2) / support;
}

// Rounded down; std::floor is a call on the oldest x86-64.
int whole(double value) {
    const int truncated = static_cast<int>(value);
    return truncated - (value < truncated);
}

}  // namespace

void PhaseTable::set(double support) {
    if (support == support_) return;
    support_ = support;
    const int used = static_cast<int>(std::ceil(2 * support));
    taps_ = used + (used & 1);
    weights_.resize(static_cast<std::size_t>(kPhases * taps_));
    std::int32_t first[kPhases];
    float offset[kPhases];
    AxisPass pass;  // of which each output is a phase: its triangle begins between the tap before the first and that
    pass.outputs = kPhases;
    pass.scale = 1.0 / kPhases;
    pass.begin = support - 0.5 - pass.scale / 2;
    pass.support = support;
    pass.slope = static_cast<float>(1 / support);
    pass.used = used;
    pass.first = first;
    pass.offset = offset;
    pass.weights = weights_.data();
    kernels().axis(pass);
}

std::int64_t PhaseTable::begin(double center) const {
    return std::llround((center - support_ + 0.5) * (1 << kPositionBits));
}

void SpotWeights::begin(int size) {
    size_ = size;
    taps_ = 2;
    spots_.clear();
}

void SpotWeights::add(double center, double support) {
    const double first = center - support + 0.5, end = center + support - 0.5;
    Spot spot{center, support, 0, 0, first < -1, end > size_ + 1};
    spot.first = whole(std::clamp(first, -1.0, static_cast<double>(size_)));
    spot.end = -whole(-std::clamp(end, spot.first + 1.0, size_ + 1.0));
    const int used = spot.end - spot.first;
    taps_ = std::max(taps_, used + (used & 1));
    spots_.push_back(spot);
}

void SpotWeights::finish() {
    const auto taps = static_cast<std::size_t>(taps_);
    weights_.assign(taps * spots_.size(), 0);
    for (std::size_t i = 0; i < spots_.size(); ++i) {
        Spot& spot = spots_[i];
        const int first = std::min(spot.first, size_ + 2 - taps_);
        weigh(spot, weights_.data() + i * taps + (spot.first - first));
        spot.first = first;
    }
}

// All that falls outside is seen as one pixel. Sums are rounded, not weights: many small ones add up.
void SpotWeights::weigh(const Spot& spot, std::int16_t* weights) {
    const int used = spot.end - spot.first;
    heights_.resize(static_cast<std::size_t>(used));
    const double offset = spot.first + 0.5 - spot.center, slope = 1 / spot.support;
    double total = 0;
    for (int t = 0; t < used; ++t)
        total += heights_[static_cast<std::size_t>(t)] = std::max(0.0, 1 - std::abs(offset + t) * slope);
    if (spot.clipped_before || spot.clipped_after) {
        const double below = spot.center - 0.5 - std::floor(spot.center - 0.5);
        const double all = half_sum(below, spot.support) + half_sum(1 - below, spot.support);
        heights_[spot.clipped_before ? 0 : heights_.size() - 1] += std::max(0.0, all - total);
        total = std::max(all, total);
    }
    const double factor = (1 << kWeightBits) / total;
    double sum = 0.5;
    int before = 0;
    for (int t = 0; t < used; ++t) {
        sum += heights_[static_cast<std::size_t>(t)] * factor;
        const int now = t + 1 == used ? 1 << kWeightBits : std::min(static_cast<int>(sum), 1 << kWeightBits);
        weights[t] = static_cast<std::int16_t>(now - before);
        before = now;
    }
}

}  // namespace stoker
