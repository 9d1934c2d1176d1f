// The writer of one image of the batch: colours, element type and layout are applied to finished rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "pixels/noise.h"
#include "pixels/rectangle.h"
#include "pixels/row_sink.h"

namespace stoker {

// An image of the batch: its memory, element type, layout and colour map.
struct Target {
    void* out = nullptr;
    std::size_t bytes = 0;
    DType dtype = DType::float32;
    Layout layout = Layout::nchw;
    int height = 0;
    int width = 0;
    int array_height = 0;  // of the image's slot in the array: the rest of it is zeros
    int array_width = 0;
    const float* color = nullptr;  // 3x4, row-major
    const std::uint8_t* fill = nullptr;  // RGB
    bool stream = false;                 // see StorePass
};

class ImageWriter final : public RowSink {
  public:
    // Rows will come for the rectangle `dest` of the mirrored output. The rest of the image is filled at once.
    void begin(const Target& target, const Rectangle& dest);

    // Stores dest.width pixels as row `y` of dest.
    void row(int y, const std::uint8_t* planes, int plane) override;
    // Overwrites a rectangle with `value`, RGB in the units of the output. All rows must be stored before.
    void erase(const Rectangle& box, const float* value);
    void erase(const Rectangle& box, const Noise& noise);

  private:
    void clear_padding();
    template <class Out>
    void write(const Rectangle& box, const Noise& noise);
    void store(int y, const std::uint8_t* planes, int plane);
    std::size_t bytes_to(int rows, int columns) const;  // offset of a pixel from the first byte of the image
    StorePass pass_of(int y, int x) const;  // a row that starts at this pixel, without its planes

    Target target_;
    Rectangle dest_{};
    int plane_ = 0;
    bool diagonal_ = false;
    std::vector<std::uint8_t> line_;  // a row of the output: fill around dest
};

}  // namespace stoker
