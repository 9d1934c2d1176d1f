// The receiver of the rows of an image.
#pragma once

#include <cstdint>

namespace stoker {

// Takes rows of uint8 RGB values: three planes, `plane` bytes apart, with kRowSlack bytes behind.
class RowSink {
  public:
    virtual void row(int y, const std::uint8_t* planes, int plane) = 0;

  protected:
    ~RowSink() = default;
};

}  // namespace stoker
