// The samples of one component: those of the MCU rows that are decoded at once, and the two rows above them.
#pragma once

#include <algorithm>
#include <cstring>

#include "decode/jpeg/kernels/jpeg_kernels.h"
#include "pixels/aligned_bytes.h"

namespace stoker::jpeg {

class Plane {
  public:
    static constexpr int kRowsAbove = 2;

    // Samples of a block along a side, and blocks of an MCU along both axes.
    int size = 8, h = 1, v = 1;
    // The size of the component in samples.
    int width = 0, height = 0;
    // How many pixels a sample covers.
    int scale_x = 1, scale_y = 1;
    // The samples that the window needs, [begin_x, end_x) and [begin_y, end_y).
    int begin_x = 0, end_x = 0, begin_y = 0, end_y = 0;

    // Sets the samples that pixels [left, right) and [top, bottom) need, with one more on each side where a sample
    // covers several pixels.
    void need(int left, int top, int right, int bottom) {
        const auto begin = [](int pixel, int scale) { return std::max(0, pixel / scale - (scale > 1)); };
        const auto end = [](int pixel, int scale, int size_of_all) {
            return std::min(size_of_all, (pixel - 1) / scale + 1 + (scale > 1));
        };
        begin_x = begin(left, scale_x);
        end_x = end(right, scale_x, width);
        begin_y = begin(top, scale_y);
        end_y = end(bottom, scale_y, height);
    }

    // Makes room for the samples of MCUs [first, last) in `mcu_rows` rows.
    void reset(int first, int last, int mcu_rows) {
        origin_ = first * h * size;
        stride_ = ((last - first) * h * size + kMargin + kSampleSlack + 63) / 64 * 64;
        bytes_.grow(static_cast<std::size_t>(stride_) * static_cast<std::size_t>(kRowsAbove + mcu_rows * v * size));
        rows_ = 0;
    }
    // Goes on to the next MCU rows. The last rows before them are kept.
    void move_to(int mcu_row, int mcu_rows, bool keep) {
        if (keep)
            for (int i = 0; i < kRowsAbove; ++i)
                std::memcpy(line(i), line(rows_ + i), static_cast<std::size_t>(stride_));
        first_row_ = mcu_row * v * size - kRowsAbove;
        rows_ = mcu_rows * v * size;
    }
    std::ptrdiff_t stride() const { return stride_; }
    // The sample (y, x) of the component. x may be one before the first sample, or after the last.
    std::uint8_t* at(int y, int x) { return line(y - first_row_) + kMargin + x - origin_; }
    // Repeats the samples at both ends of the rows, where the image ends there.
    void repeat_ends() {
        for (int y = first_row_ + kRowsAbove; y < first_row_ + kRowsAbove + rows_; ++y) {
            if (begin_x == 0) *at(y, -1) = *at(y, 0);
            if (end_x == width) *at(y, width) = *at(y, width - 1);
        }
    }

  private:
    static constexpr int kMargin = 64;  // in front of the first sample

    std::uint8_t* line(int i) { return bytes_.data() + static_cast<std::ptrdiff_t>(i) * stride_; }

    AlignedBytes bytes_;
    int stride_ = 0, origin_ = 0, first_row_ = 0;
    int rows_ = 0;  // below the two above
};

}  // namespace stoker::jpeg
