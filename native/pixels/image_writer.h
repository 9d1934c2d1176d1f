// Finished rows of a image, uint8 RGB in planes, become one image of the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "pixels/noise.h"
#include "pixels/rectangle.h"
#include "pixels/row_sink.h"

namespace stoker {

// An image of the batch: colour, element type, layout, and where it lies in memory.
struct Target {
    void* out = nullptr;
    std::size_t bytes = 0;
    DType dtype = DType::float32;
    Layout layout = Layout::nchw;
    int height = 0;
    int width = 0;
    const float* color = nullptr;  // 3x4
    const std::uint8_t* fill = nullptr;  // RGB
    bool stream = false;                 // see StorePass
};

class ImageWriter final : public RowSink {
  public:
    // `dest` is the rectangle that rows will come for, in the output as it is after any mirroring; what
    // lies outside it is filled at once.
    void begin(const Target& target, const Rectangle& dest);

    const Rectangle& dest() const { return dest_; }

    // Store dest.width pixels as row `y` of dest.
    void row(int y, const std::uint8_t* planes, int plane) override;
    // Overwrite a rectangle of the image, which must be stored by now, by `value`, RGB in its own units.
    void erase(const Rectangle& box, const float* value);
    void erase(const Rectangle& box, const Noise& noise);

  private:
    template <class Out>
    void write(const Rectangle& box, const Noise& noise);
    void store(int y, const std::uint8_t* planes, int plane);
    std::size_t bytes_to(int rows, int columns) const;  // from the image's first byte on
    StorePass pass_of(int y, int x) const;  // of a row from there on, its pixels still missing

    Target target_;
    Rectangle dest_{};
    int plane_ = 0;
    bool diagonal_ = false;
    std::vector<std::uint8_t> line_;  // a whole row of the output: fill, with dest in between
};

}  // namespace stoker
