// Where finished rows go.
#pragma once

#include <cstdint>

namespace stoker {

// Takes the rows of a image, uint8 RGB: three planes, `plane` bytes apart, with slack.
class RowSink {
  public:
    virtual void row(int y, const std::uint8_t* planes, int plane) = 0;

  protected:
    ~RowSink() = default;
};

}  // namespace stoker
