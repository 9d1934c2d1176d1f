// The warp of an axis-aligned map, which only scales, mirrors and shifts.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels/rectangle.h"
#include "resample/resampler.h"
#include "resample/row_orienter.h"
#include "warp/warp_map.h"

namespace stoker {

// Resizes the source with a margin of fill, which is as wide as the filter. It is several times as fast as
// Warper and differs from it by at most 1; even in a batch with rotations, most images are not rotated.
class AlignedWarp {
  public:
    static bool fits(const WarpMap& map) { return map.affine() && map.aligned(); }

    // Prepares as Warper::begin() does. Rows go to `sink` as soon as they are computed.
    const Window& begin(const WarpMap& map, int height, int width, const std::uint8_t* fill, RowSink& sink);
    void push(const std::uint8_t* rgb);
    void finish();

  private:
    void push_margin(int rows);

    Resampler resampler_;
    RowOrienter orienter_;
    Window window_{};
    int before_ = 0;  // pixels of margin before the window in a row
    int below_ = 0;   // rows of margin below the window
    std::vector<std::uint8_t> row_;         // a row of the window, with its margin
    std::vector<std::uint8_t> margin_row_;  // a row of fill
};

}  // namespace stoker
