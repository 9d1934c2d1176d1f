// The antialiased resize of rows, as a decoder returns them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "pixels/aligned_bytes.h"
#include "pixels/rectangle.h"
#include "pixels/row_sink.h"
#include "resample/axis.h"
#include "resample/resize.h"

namespace stoker {

// Resizes along the x axis of the oriented image first, rounds and clips to uint8, then along the y axis. For a
// transposed image this is the other way round in the stored image. The ring holds only the rows that one
// output row needs.
class Resampler {
  public:
    // Prepares a resize, before begin(). Returns the window of the source that push() needs.
    Window set(const Resize& resize);
    void begin(RowSink& sink, int source_rows);
    // Takes the next row of the window, interleaved RGB, followed by kRowSlack readable bytes.
    void push(const std::uint8_t* rgb);
    bool finished() const { return next_output_ == y_.outputs; }

  private:
    std::uint8_t* slot(int row) { return ring_.data() + static_cast<std::ptrdiff_t>(row & ring_mask_) * slot_bytes_; }
    int rows_needed() const;  // before the next output row can be computed
    void emit();
    const std::uint8_t* resized_row(std::size_t output);

    const Kernels& kernels_ = kernels();
    Axis x_, y_;  // in the coordinates of the window
    RowSink* sink_ = nullptr;
    bool vertical_first_ = false;
    int source_bytes_ = 0;  // in a row of the window
    HorizontalPass horizontal_;
    int plane_ = 0;
    int slot_bytes_ = 0;
    int ring_mask_ = 0;
    int source_rows_ = 0;
    int next_row_ = 0;
    int next_output_ = 0;
    AlignedBytes table_;
    AlignedBytes ring_;
    AlignedBytes output_, planes_;  // of the vertical pass, and of a horizontal pass after it
    std::vector<const std::uint8_t*> rows_;
};

}  // namespace stoker
