#include "resample/resampler.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

constexpr std::int16_t kOne = 1 << kWeightBits;

// Whether each output is the source pixel of the same number. With negative lobes, other weights may cancel out.
bool is_unchanged(const Axis& axis) {
    if (axis.negative_lobes) return false;
    const std::int16_t* weights = axis.weights.data();
    for (int i = 0; i < axis.outputs; ++i, weights += axis.taps) {
        const int tap = i - axis.first[static_cast<std::size_t>(i)];
        if (tap < 0 || tap >= axis.taps || weights[tap] != kOne) return false;
    }
    return true;
}

void split_into_planes(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) {
    kernels().deinterleave(rgb, pass.outputs, planes, pass.plane);
}

}  // namespace

Window Resampler::set(const Resize& resize) {
    const Span &x = resize.x, &y = resize.y;
    x_.set(x, x.reversed, resize.interpolation);
    // Rows always come from the top; the row orienter mirrors them.
    y_.set(y, false, resize.interpolation);
    const Window window{x_.begin(), y_.begin(), std::min(x_.end(), x.high), std::min(y_.end(), y.high)};
    x_.translate(-window.left);
    y_.translate(-window.top);
    vertical_first_ = resize.transposed;
    source_bytes_ = 3 * (window.right - window.left);
    return window;
}

void Resampler::begin(RowSink& sink, int source_rows) {
    sink_ = &sink;
    source_rows_ = source_rows;
    plane_ = plane_stride(x_.outputs);
    slot_bytes_ = (vertical_first_ ? source_bytes_ : 3 * plane_) + kRowSlack;
    next_row_ = 0;
    next_output_ = 0;
    int slots = 2;  // a power of two, so that a mask computes the index in the ring
    while (slots < y_.taps) slots *= 2;
    ring_mask_ = slots - 1;
    ring_.grow(static_cast<std::size_t>(slot_bytes_) * static_cast<std::size_t>(slots));
    output_.grow(static_cast<std::size_t>(slot_bytes_));
    if (vertical_first_) planes_.grow(3 * static_cast<std::size_t>(plane_) + kRowSlack);
    rows_.resize(static_cast<std::size_t>(y_.taps));
    horizontal_.outputs = x_.outputs;
    horizontal_.taps = x_.taps;
    horizontal_.first = x_.first.data();
    horizontal_.weights = x_.weights.data();
    horizontal_.negative_lobes = x_.negative_lobes;
    horizontal_.plane = plane_;
    table_.grow(table_bytes(x_.outputs));
    horizontal_.table = table_.data();
    if (is_unchanged(x_))
        horizontal_.run = split_into_planes;
    else
        kernels_.prepare(horizontal_);
}

void Resampler::push(const std::uint8_t* rgb) {
    const int row = next_row_++;
    if (finished()) return;
    if (vertical_first_)
        std::memcpy(slot(row), rgb, static_cast<std::size_t>(source_bytes_));
    else
        horizontal_.run(horizontal_, rgb, slot(row));
    while (!finished() && next_row_ >= rows_needed()) emit();
}

int Resampler::rows_needed() const {
    return std::min(y_.first[static_cast<std::size_t>(next_output_)] + y_.taps, source_rows_);
}

void Resampler::emit() {
    const auto output = static_cast<std::size_t>(next_output_);
    const std::uint8_t* row = resized_row(output);
    if (vertical_first_) {
        horizontal_.run(horizontal_, row, planes_.data());
        row = planes_.data();
    }
    sink_->row(next_output_++, row, plane_);
}

// Returns an output row of the vertical pass, or the row of the ring that it would be equal to.
const std::uint8_t* Resampler::resized_row(std::size_t output) {
    const std::int16_t* weights = y_.weights.data() + output * static_cast<std::size_t>(y_.taps);
    for (int t = 0; t < y_.taps; ++t) {
        rows_[static_cast<std::size_t>(t)] = slot(y_.first[output] + t);
        if (weights[t] == kOne && !y_.negative_lobes) return rows_[static_cast<std::size_t>(t)];
    }
    VerticalPass pass;
    pass.rows = rows_.data();
    pass.weights = weights;
    pass.negative_lobes = y_.negative_lobes;
    pass.taps = y_.taps;
    pass.bytes = vertical_first_ ? source_bytes_ : 3 * plane_;
    kernels_.vertical(pass, output_.data());
    return output_.data();
}

}  // namespace stoker
