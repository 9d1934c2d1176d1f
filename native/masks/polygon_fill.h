// Outlines of objects, cut, mapped and filled; the slow truth is stoker.augment.segments.
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

    // Sets the pixels of `mask`, (height, width), whose centres lie within a polygon by the even-odd rule, once
    // it is cut to `region` (top, left, bottom, right) and mapped by `matrix`, row-major, 3 x 3. Nothing is seen
    // of one that reaches the horizon.
    void add(const Point* polygon, std::size_t count, const double* region, const double* matrix,
             std::uint8_t* mask);

  private:
    void cut(const double* region);
    void keep(bool vertical, double sign, double bound);
    bool map(const double* matrix);
    void toggle(const Point& from, const Point& to);
    void fill_between(std::uint8_t* mask);

    int height_, width_;
    std::size_t words_;                 // of 64 columns, in a row of toggles
    std::vector<Point> points_, kept_;
    std::vector<std::uint64_t> toggles_;  // columns from which on inside and outside change places; zero between calls
    int top_ = 0, bottom_ = 0;          // rows that have some
};

}  // namespace stoker
