// The nearest source pixel of each output pixel; see stoker.augment.geometry.annotations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stoker {

// The size of a source, and its visible region.
struct SourceWindow {
    int height, width;
    const double* region;  // top, left, bottom, right; finite, and within the source up to rounding
};

// The map of an output of this size.
class SourcePixels {
  public:
    SourcePixels(int height, int width) : height_(height), width_(width) {}

    // Computes the map. `matrix`, 3x3, row-major, finite, leads from (x, y, 1) in the output to the source. If
    // `shown` is false, the output shows nothing of the source.
    void find(const double* matrix, const SourceWindow& source, bool shown);

    // Returns the last row of the source that is shown, or -1 if none is.
    int last_row() const;

    // Whether the map is axis-aligned; then columns() has the source column of each output column, or -1 for none.
    bool axis_aligned() const { return axis_aligned_; }
    const std::vector<int>& columns() const { return columns_; }
    // Returns the rows [first, second) of an axis-aligned output that show the rows [low, high) of the source.
    std::pair<int, int> rows_between(int low, int high) const;

    // Writes the values that the output shows into `out`, (height, width), and `fill` where it shows nothing of
    // the source. The pixel (row, column) of the source lies at row * row_stride + column * column_stride.
    void sample(const std::uint8_t* source, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
                std::uint8_t fill, std::uint8_t* out) const;

  private:
    void find_axis_aligned(const double* matrix, const SourceWindow& source);
    void find_each(const double* matrix, const SourceWindow& source);

    int height_, width_;
    bool axis_aligned_ = true;
    // -1 for none. For an axis-aligned output, one for each row and one for each column; otherwise one for each pixel.
    std::vector<int> rows_, columns_;
    int first_ = 0, end_ = 0;  // the rows of an axis-aligned output that show some of the source
};

}  // namespace stoker
