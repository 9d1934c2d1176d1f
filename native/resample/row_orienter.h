// The orientation of resampled rows: from rows of the stored image to rows of the output.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/row_sink.h"
#include "resample/resize.h"

namespace stoker {

// Mirrors rows vertically, or transposes them in a buffer.
class RowOrienter final : public RowSink {
  public:
    void begin(RowSink& sink, const Resize& resize);
    void row(int y, const std::uint8_t* planes, int plane) override;
    void finish();

  private:
    RowSink* sink_ = nullptr;
    bool transposed_ = false;
    bool reversed_ = false;
    int rows_ = 0;
    int columns_ = 0;
    int plane_ = 0;
    std::vector<std::uint8_t> transposed_rows_;  // [column][channel][row], for a transposed image
};

}  // namespace stoker
