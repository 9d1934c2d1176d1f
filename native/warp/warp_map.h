// The projective map from the pixels of a warped output to the stored image.
#pragma once

#include <array>
#include <cstdint>

#include "pixels/rectangle.h"
#include "resample/resize.h"

namespace stoker {

// The point of the source that an output pixel shows, and the support of the filter there, at least 1. Coordinates
// are in pixels; the edges of pixels are integers. `visible` is false behind the horizon.
struct SourcePoint {
    double x, y;
    double support_x, support_y;
    bool visible;
};

// The part of the source that all outputs read, and about the smallest of their supports.
struct Footprint {
    double left, top, right, bottom;
    double support = 1;
};

// One axis of an axis-aligned map: source = output * scale + shift.
struct AxisMap {
    double scale, shift;
};

// A projective map from the output to the source; see stoker.augment.params.Warp.
class WarpMap {
  public:
    WarpMap() = default;
    // `matrix`, 3x3, row-major, maps points of the output to the source. Only `window` of the source is visible.
    WarpMap(const double* matrix, const Window& window);
    // `matrix` maps points of the output to a canvas. `resize` maps the stored image onto the canvas.
    WarpMap(const double* matrix, const Resize& resize);

    bool affine() const { return m_[6] == 0 && m_[7] == 0 && m_[8] == 1; }
    // Whether the map is axis-aligned. Then axis_x() and axis_y() describe it.
    bool aligned() const;
    AxisMap axis_x() const { return {m_[0], m_[2]}; }
    AxisMap axis_y() const { return {m_[4], m_[5]}; }
    // Returns what the point (column, row) of the output shows. The centres of pixels end in .5.
    SourcePoint at(double column, double row) const;
    // The distance in the source from one column of the output to the next, of an affine map.
    double step_x() const { return m_[0]; }
    double step_y() const { return m_[3]; }
    const double* matrix() const { return m_.data(); }
    Footprint footprint(int height, int width) const;
    // The visible part of the source; everything else is fill.
    const Window& window() const { return window_; }
    // Converts the map to a source of `eighths`/8 of the size.
    void reduce(int eighths);

  private:
    double min_support(int height, int width) const;
    void compose_axis(int row, double begin, double end, int offset, int outputs, bool reversed);

    std::array<double, 9> m_{};
    Window window_{};
};

}  // namespace stoker
