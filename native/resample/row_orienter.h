// Turns resampled rows into rows of the output.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/row_sink.h"
#include "resample/placement.h"

namespace stoker {

// Mirrors them, or transposes them by way of a buffer.
class RowOrienter final : public RowSink {
  public:
    void begin(RowSink& sink, const Placement& placement);
    void row(int y, const std::uint8_t* planes, int plane) override;
    void finish();

  private:
    RowSink* sink_ = nullptr;
    bool transposed_ = false;
    bool reversed_ = false;
    int rows_ = 0;
    int columns_ = 0;
    int plane_ = 0;
    std::vector<std::uint8_t> transposed_rows_;  // [column][channel][row] of a transposed one
};

}  // namespace stoker
