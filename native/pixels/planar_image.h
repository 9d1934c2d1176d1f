// A whole image between resampling and storing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pixels/rectangle.h"
#include "pixels/row_sink.h"

namespace stoker {

// An image of uint8 RGB values. A row is three planes, red first, plane() bytes apart. Columns from width() on
// are undefined.
class PlanarImage {
  public:
    // The contents are undefined afterwards.
    void reset(int height, int width);
    void copy(const PlanarImage& other);
    // Copies three planes, `plane` bytes apart, with rows `stride` bytes apart.
    void copy(const std::uint8_t* planes, std::size_t plane, int stride);

    int height() const { return height_; }
    int width() const { return width_; }
    int plane() const { return plane_; }
    std::uint8_t* row(int y) { return bytes_.data() + static_cast<std::size_t>(y) * stride(); }
    const std::uint8_t* row(int y) const { return bytes_.data() + static_cast<std::size_t>(y) * stride(); }

    std::array<double, 3> mean() const;
    // Writes the image as interleaved RGB, 3 * width() values a row; or reads it.
    void interleave(std::uint8_t* rgb) const;
    void deinterleave(const std::uint8_t* rgb);
    // Fills row `y` from column `begin` to `end` with one colour.
    void fill(int y, int begin, int end, const std::uint8_t* rgb);

  private:
    std::size_t stride() const { return 3 * static_cast<std::size_t>(plane_); }

    int height_ = 0;
    int width_ = 0;
    int plane_ = 0;
    std::vector<std::uint8_t> bytes_;
};

// Writes rows into a rectangle of an image, and fills the rest of the image.
class PlanarSink final : public RowSink {
  public:
    void begin(PlanarImage& image, const Rectangle& dest, const std::uint8_t* fill);
    void row(int y, const std::uint8_t* planes, int plane) override;

  private:
    PlanarImage* image_ = nullptr;
    Rectangle dest_{};
};

}  // namespace stoker
