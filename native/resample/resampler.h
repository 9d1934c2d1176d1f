// Antialiased resize of rows as they come from a decoder.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "pixels/aligned_bytes.h"
#include "pixels/rectangle.h"
#include "pixels/row_sink.h"
#include "resample/axis.h"
#include "resample/placement.h"

namespace stoker {

// Horizontal first, rounded and clipped to uint8, then vertical, in the picture as it is seen: where it is
// stored on its side it is the other way round. Only the rows that one output row needs are kept.
class Resampler {
  public:
    // Before begin(). Returns the window of the source that is wanted, row by row.
    Window set(const Placement& placement);
    void begin(RowSink& sink, int source_rows);
    // The next row of source pixels, interleaved RGB; kRowSlack bytes past its end may be read.
    void push(const std::uint8_t* rgb);
    bool finished() const { return next_output_ == y_.outputs; }

  private:
    std::uint8_t* slot(int row) { return ring_.data() + static_cast<std::ptrdiff_t>(row & ring_mask_) * slot_bytes_; }
    int rows_wanted() const;  // before the next output can be made
    void emit();

    const Kernels& kernels_ = kernels();
    Axis x_, y_;  // in coordinates of the window
    RowSink* sink_ = nullptr;
    bool vertical_first_ = false;
    int source_bytes_ = 0;  // of a row
    HorizontalPass horizontal_;
    int plane_ = 0;
    int slot_bytes_ = 0;
    int ring_mask_ = 0;
    int source_rows_ = 0;
    int next_row_ = 0;
    int next_output_ = 0;
    AlignedBytes table_;
    AlignedBytes ring_;
    AlignedBytes output_, planes_;  // of the vertical pass, and of a horizontal one behind it
    std::vector<const std::uint8_t*> rows_;
};

}  // namespace stoker
