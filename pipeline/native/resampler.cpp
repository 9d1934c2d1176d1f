#include "resampler.h"

#include <algorithm>

namespace stoker {
namespace {

void grow(std::vector<std::uint8_t>& buffer, std::size_t bytes) {
    if (buffer.size() < bytes) buffer.resize(bytes);
}

}  // namespace

void Resampler::begin(RowSink& sink, int source_rows) {
    sink_ = &sink;
    source_rows_ = source_rows;
    plane_ = plane_stride(x.outputs);
    slot_bytes_ = 3 * plane_ + kSlack;
    next_row_ = 0;
    next_output_ = 0;
    int slots = 2;  // a power of two, which makes the ring's index a mask
    while (slots < y.taps) slots *= 2;
    ring_mask_ = slots - 1;
    grow(ring_, static_cast<std::size_t>(slot_bytes_) * static_cast<std::size_t>(slots));
    grow(output_, static_cast<std::size_t>(slot_bytes_));
    rows_.resize(static_cast<std::size_t>(y.taps));
    horizontal_.outputs = x.outputs;
    horizontal_.taps = x.taps;
    horizontal_.first = x.first.data();
    horizontal_.weights = x.weights.data();
    horizontal_.plane = plane_;
}

void Resampler::push(const std::uint8_t* rgb) {
    const int row = next_row_++;
    if (finished()) return;
    kernels_.horizontal(horizontal_, rgb, slot(row));
    while (!finished() && next_row_ >= rows_wanted()) emit();
}

int Resampler::rows_wanted() const {
    return std::min(y.first[static_cast<std::size_t>(next_output_)] + y.taps, source_rows_);
}

void Resampler::emit() {
    const auto output = static_cast<std::size_t>(next_output_);
    for (int t = 0; t < y.taps; ++t) rows_[static_cast<std::size_t>(t)] = slot(y.first[output] + t);
    VerticalPass pass;
    pass.rows = rows_.data();
    pass.weights = y.weights.data() + output * static_cast<std::size_t>(y.taps);
    pass.taps = y.taps;
    pass.bytes = 3 * plane_;
    kernels_.vertical(pass, output_.data());
    sink_->row(next_output_++, output_.data(), plane_);
}

}  // namespace stoker
