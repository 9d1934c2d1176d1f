// The polygons of objects: clipped, mapped and filled; the reference is stoker.augment.geometry.masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker {

struct Point {
    double x, y;
};

class PolygonFill {
  public:
    PolygonFill(int height, int width);

    // Clips a polygon to `region` (top, left, bottom, right), maps it by `matrix`, 3x3, row-major, and sets the
    // pixels of `mask`, (height, width), whose centres lie within it by the even-odd rule. A polygon that
    // reaches the horizon sets no pixel.
    void add(const Point* polygon, std::size_t count, const double* region, const double* matrix, std::uint8_t* mask);

  private:
    void clip(const double* region);
    void clip_side(bool vertical, double sign, double bound);
    bool map(const double* matrix);
    void toggle(const Point& from, const Point& to);
    void fill_between(std::uint8_t* mask);

    int height_, width_;
    std::size_t words_;                 // of 64 columns, in a row of toggles_
    std::vector<Point> points_, kept_;
    std::vector<std::uint64_t> toggles_;  // columns at which inside becomes outside, or back; zero between calls
    int top_ = 0, bottom_ = 0;          // the rows that have toggles
};

}  // namespace stoker
