// Which pixel of a source each pixel of an output takes: the nearest; see stoker.augment.geometry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stoker {

// The source of an image: its pixels, and what of it is seen.
struct SourceWindow {
    int height, width;
    const double* region;  // top, left, bottom, right; within the source up to rounding, and finite
};

class SourcePixels {
  public:
    SourcePixels(int height, int width) : height_(height), width_(width) {}

    // `matrix`, row-major and finite, leads from (x, y, 1) in the output to the source, of which nothing is seen
    // where `shown` is false.
    void find(const double* matrix, const SourceWindow& source, bool shown);

    // The last row of the source that any pixel takes; -1 for none.
    int last_row() const;

    // Whether each axis of the output is one of the source, and its columns then: -1 for nothing.
    bool axis_aligned() const { return axis_aligned_; }
    const std::vector<int>& columns() const { return columns_; }
    // Where it is upright, the rows of the output from `first` to below `second` that take a row of the source
    // from `low` to below `high`, from 0.
    std::pair<int, int> rows_between(int low, int high) const;

    // The values of a source whose pixel (row, column) lies at row * row_stride + column * column_stride;
    // `background` where the output shows nothing of it. `out` is (height, width).
    void sample(const std::uint8_t* source, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
                 std::uint8_t background, std::uint8_t* out) const;

  private:
    void find_axis_aligned(const double* matrix, const SourceWindow& source);
    void find_each(const double* matrix, const SourceWindow& source);

    int height_, width_;
    bool axis_aligned_ = true;
    // -1 for nothing. One a row and one a column of the output where it is upright, else one a pixel.
    std::vector<int> rows_, columns_;
    int first_ = 0, end_ = 0;  // the rows of an upright output that show something
};

}  // namespace stoker
