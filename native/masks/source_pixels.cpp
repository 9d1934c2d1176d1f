#include "masks/source_pixels.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

int within(double position, double low, double high, int size) {
    return position >= low && position < high ? std::min(static_cast<int>(position), size - 1) : -1;
}

int row_at(double y, const SourceWindow& source) {
    return within(y, source.region[0], source.region[2], source.height);
}

int column_at(double x, const SourceWindow& source) {
    return within(x, source.region[1], source.region[3], source.width);
}

}  // namespace

void SourcePixels::find(const double* m, const SourceWindow& source, bool shown) {
    axis_aligned_ = m[1] == 0 && m[3] == 0 && m[6] == 0 && m[7] == 0 && m[8] == 1;
    const std::size_t height = static_cast<std::size_t>(height_), width = static_cast<std::size_t>(width_);
    rows_.assign(axis_aligned_ ? height : height * width, -1);
    columns_.assign(axis_aligned_ ? width : height * width, -1);
    first_ = end_ = 0;
    if (!shown) return;
    if (axis_aligned_)
        find_axis_aligned(m, source);
    else
        find_each(m, source);
}

void SourcePixels::find_axis_aligned(const double* m, const SourceWindow& source) {
    for (int c = 0; c < width_; ++c) columns_[c] = column_at(m[0] * (c + 0.5) + m[2], source);
    for (int r = 0; r < height_; ++r) {
        rows_[r] = row_at(m[4] * (r + 0.5) + m[5], source);
        if (rows_[r] < 0) continue;
        if (end_ == 0) first_ = r;
        end_ = r + 1;
    }
}

void SourcePixels::find_each(const double* m, const SourceWindow& source) {
    std::size_t at = 0;
    for (int r = 0; r < height_; ++r) {
        const double y = r + 0.5;
        for (int c = 0; c < width_; ++c, ++at) {
            const double x = c + 0.5;
            // In the order of stoker.augment.resampling.apply_matrix, so that results are equal to the bit.
            const double w = x * m[6] + y * m[7] + m[8];
            if (!(w > 0)) continue;
            rows_[at] = row_at((x * m[3] + y * m[4] + m[5]) / w, source);
            columns_[at] = column_at((x * m[0] + y * m[1] + m[2]) / w, source);
        }
    }
}

int SourcePixels::last_row() const {
    return rows_.empty() ? -1 : *std::max_element(rows_.begin(), rows_.end());
}

std::pair<int, int> SourcePixels::rows_between(int low, int high) const {
    const auto first = rows_.begin() + first_, end = rows_.begin() + end_;
    const auto boundary = [&](auto is_before) {
        return static_cast<int>(std::partition_point(first, end, is_before) - rows_.begin());
    };
    if (first != end && *first > *(end - 1))  // upside down
        return {boundary([=](int row) { return row >= high; }), boundary([=](int row) { return row >= low; })};
    return {boundary([=](int row) { return row < low; }), boundary([=](int row) { return row < high; })};
}

void SourcePixels::sample(const std::uint8_t* source, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
                          std::uint8_t fill, std::uint8_t* out) const {
    const std::size_t width = static_cast<std::size_t>(width_);
    if (!axis_aligned_) {
        for (std::size_t i = 0; i < rows_.size(); ++i)
            out[i] = rows_[i] < 0 || columns_[i] < 0
                         ? fill
                         : source[rows_[i] * row_stride + columns_[i] * column_stride];
        return;
    }
    for (int r = 0; r < height_; ++r, out += width) {
        if (rows_[r] < 0) {
            std::memset(out, fill, width);
        } else if (r > 0 && rows_[r] == rows_[r - 1]) {
            std::memcpy(out, out - width, width);
        } else {
            const std::uint8_t* row = source + rows_[r] * row_stride;
            for (std::size_t c = 0; c < width; ++c)
                out[c] = columns_[c] < 0 ? fill : row[columns_[c] * column_stride];
        }
    }
}

}  // namespace stoker
