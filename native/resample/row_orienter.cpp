#include "resample/row_orienter.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace stoker {

void RowOrienter::begin(RowSink& sink, const Resize& resize) {
    sink_ = &sink;
    transposed_ = resize.transposed;
    reversed_ = resize.y.reversed;
    rows_ = resize.y.outputs;
    columns_ = resize.x.outputs;
    plane_ = plane_stride(rows_);
    const std::size_t bytes = 3 * static_cast<std::size_t>(plane_) * static_cast<std::size_t>(columns_) + kRowSlack;
    if (transposed_ && transposed_rows_.size() < bytes) transposed_rows_.resize(bytes);
}

void RowOrienter::row(int y, const std::uint8_t* planes, int plane) {
    const int to = reversed_ ? rows_ - 1 - y : y;
    if (!transposed_) return sink_->row(to, planes, plane);
    for (int c = 0; c < 3; ++c) {
        const std::uint8_t* from = planes + static_cast<std::ptrdiff_t>(c) * plane;
        std::uint8_t* column = transposed_rows_.data() + static_cast<std::ptrdiff_t>(c) * plane_ + to;
        for (int x = 0; x < columns_; ++x) column[static_cast<std::ptrdiff_t>(x) * 3 * plane_] = from[x];
    }
}

void RowOrienter::finish() {
    if (!transposed_ || rows_ == 0) return;
    for (int x = 0; x < columns_; ++x)
        sink_->row(x, transposed_rows_.data() + static_cast<std::ptrdiff_t>(x) * 3 * plane_, plane_);
}

}  // namespace stoker
