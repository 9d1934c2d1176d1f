#include "warp/warp_weights.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/rounding.h"

namespace stoker {
namespace {

constexpr int kPhases = 1 << kPhaseBits;

// Returns the sum of 1 - d / support for d = distance, distance + 1, ... below support.
double half_sum(double distance, double support) {
    const double n = std::max(std::ceil(support - distance), 0.0);
    return n - (n * distance + n * (n - 1) / 2) / support;
}

}  // namespace

double triangle_sum(double center, double support) {
    const double below = center - 0.5 - std::floor(center - 0.5);
    return half_sum(below, support) + half_sum(1 - below, support);
}

void PhaseTable::set(double support) {
    if (support == support_) return;
    support_ = support;
    const int used = static_cast<int>(std::ceil(2 * support));
    taps_ = used + (used & 1);
    weights_.resize(static_cast<std::size_t>(kPhases * taps_));
    std::int32_t first[kPhases];
    float offset[kPhases];
    AxisPass pass;  // each of its outputs is a phase, whose triangle begins less than a pixel before the first tap
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
    return std::llround((center - support_ + 0.5) * (1 << kFractionBits));
}

void PointWeights::begin(int size) {
    size_ = size;
    taps_ = 2;
    entries_.clear();
}

void PointWeights::add(double center, double support) {
    const double first = center - support + 0.5, end = center + support - 0.5;
    Entry entry{center, support, 0, 0, first < -1, end > size_ + 1};
    entry.first = round_down(std::clamp(first, -1.0, static_cast<double>(size_)));
    entry.end = -round_down(-std::clamp(end, entry.first + 1.0, size_ + 1.0));
    const int used = entry.end - entry.first;
    taps_ = std::max(taps_, used + (used & 1));
    entries_.push_back(entry);
}

void PointWeights::finish() {
    const auto taps = static_cast<std::size_t>(taps_);
    weights_.assign(taps * entries_.size(), 0);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        Entry& entry = entries_[i];
        const int first = std::min(entry.first, size_ + 2 - taps_);
        compute(entry, weights_.data() + i * taps + (entry.first - first));
        entry.first = first;
    }
}

// One pixel of fill gets the weights of all taps outside the window. Cumulative sums are rounded instead of
// weights, because the errors of many small weights would add up.
void PointWeights::compute(const Entry& entry, std::int16_t* weights) {
    const int used = entry.end - entry.first;
    values_.resize(static_cast<std::size_t>(used));
    const double offset = entry.first + 0.5 - entry.center, slope = 1 / entry.support;
    double total = 0;
    for (int t = 0; t < used; ++t)
        total += values_[static_cast<std::size_t>(t)] = std::max(0.0, 1 - std::abs(offset + t) * slope);
    if (entry.clipped_before || entry.clipped_after) {
        const double all = triangle_sum(entry.center, entry.support);
        values_[entry.clipped_before ? 0 : values_.size() - 1] += std::max(0.0, all - total);
        total = std::max(all, total);
    }
    const double factor = (1 << kWeightBits) / total;
    double sum = 0.5;
    int before = 0;
    for (int t = 0; t < used; ++t) {
        sum += values_[static_cast<std::size_t>(t)] * factor;
        const int now = t + 1 == used ? 1 << kWeightBits : std::min(static_cast<int>(sum), 1 << kWeightBits);
        weights[t] = static_cast<std::int16_t>(now - before);
        before = now;
    }
}

}  // namespace stoker
