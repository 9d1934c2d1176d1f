// A warp that only scales, mirrors and shifts: two passes of weights along the axes.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/rectangle.h"
#include "resample/resampler.h"
#include "resample/row_orienter.h"
#include "warp/warp_map.h"

namespace stoker {

// Most images of a batch that some are turned in are not: this is several times as fast as Warper, and gives
// the same within a level. The window of the source gets a margin of fill, as wide as the filter.
class AlignedWarp {
  public:
    static bool fits(const WarpMap& map) { return map.affine() && map.aligned(); }

    // As Warper::begin(), and rows go to `sink` as soon as they can.
    const Window& begin(const WarpMap& map, int height, int width, const std::uint8_t* fill, RowSink& sink);
    void push(const std::uint8_t* rgb);
    void finish();

  private:
    void push_margin(int rows);

    Resampler resampler_;
    RowOrienter orienter_;
    Window window_{};
    int before_ = 0;  // pixels of margin in a row before the window
    int below_ = 0;   // rows of margin after the window
    std::vector<std::uint8_t> row_;         // a row of the window, within the margin
    std::vector<std::uint8_t> margin_row_;  // nothing but fill
};

}  // namespace stoker
