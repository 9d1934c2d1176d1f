// From the pixels of a warped output to places in the stored image.
#pragma once

#include <array>
#include <cstdint>

#include "pixels/rectangle.h"
#include "resample/placement.h"

namespace stoker {

// What one output shows: a place in the source, pixels, edges of pixels being integers, and how far the
// filter reaches there, from 1. `seen` is false behind the horizon.
struct SourcePoint {
    double x, y;
    double support_x, support_y;
    bool seen;
};

// What a warp's outputs do not reach beyond in the source, and the least support of all, nearly.
struct Footprint {
    double left, top, right, bottom;
    double support = 1;
};

// One axis of a map that is along the axes: the source's place of each of the output's.
struct AxisMap {
    double scale, shift;
};

// A projective map of pixels of the output, which is resampled once: see stoker.augment.extras.Warp.
class WarpMap {
  public:
    WarpMap() = default;
    // `matrix`, row-major, leads straight to the source, of which `window` is seen.
    WarpMap(const double* matrix, const Window& window);
    // `matrix` leads to a canvas, onto which `placement` puts the stored image.
    WarpMap(const double* matrix, const Placement& placement);

    bool affine() const { return m_[6] == 0 && m_[7] == 0 && m_[8] == 1; }
    // Whether rows and columns stay what they are; then axis_x() and axis_y() say it all.
    bool aligned() const;
    AxisMap axis_x() const { return {m_[0], m_[2]}; }
    AxisMap axis_y() const { return {m_[4], m_[5]}; }
    SourcePoint at(double column, double row) const;  // of the output: centres of pixels end in .5
    // How far an affine map moves from one column of the output to the next.
    double step_x() const { return m_[0]; }
    double step_y() const { return m_[3]; }
    const double* matrix() const { return m_.data(); }
    Footprint footprint(int height, int width) const;
    // The part of the source that is seen; what lies outside is fill.
    const Window& window() const { return window_; }
    // In an image of eighths/8 the size.
    void reduce(int eighths);

  private:
    double least_support(int height, int width) const;
    void compose_axis(int row, double begin, double end, int offset, int outputs, bool reversed);

    std::array<double, 9> m_{};
    Window window_{};
};

// The smallest DCT size, in eighths, that keeps the output's resolution everywhere.
int dct_eighths(const Footprint& footprint);

}  // namespace stoker
