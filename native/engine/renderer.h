// The geometry of one sample: from encoded or raw pixels to rows of the output.
#pragma once

#include <cstdint>

#include "decode/decoder.h"
#include "decode/status.h"
#include "pixels/row_sink.h"
#include "resample/border.h"
#include "resample/nearest_sampler.h"
#include "resample/placement.h"
#include "resample/row_orienter.h"
#include "resample/resampler.h"
#include "warp/aligned_warp.h"
#include "warp/warper.h"

namespace stoker {

// Where the stored image goes: onto the output, or onto a canvas that a warp, 3x3, then shows, or onto a tile.
struct Geometry {
    Placement placement;
    const double* warp = nullptr;
    bool nearest = false;  // the warp picks pixels of the canvas
    Border border;
    Size frame;   // that the placement is in: output, canvas or tile
    Size canvas;  // of a warp
    Size output;
    const std::uint8_t* fill = nullptr;  // RGB
};

// The resamplers of a thread. Rows go to a sink: those of placement.dest, or of the whole output
// where there is a warp.
class Renderer {
  public:
    // Renders the image that `decoder` has opened. Without a sink it is decoded, no more.
    Outcome render(Decoder& decoder, const Geometry& geometry, RowSink* sink);

  private:
    Window begin(const Geometry& geometry, int& eighths, RowSink* sink);
    Window begin_resampler(const Geometry& geometry, int& eighths, RowSink* sink);
    Window begin_canvas(const Geometry& geometry, int& eighths, RowSink* sink);
    Window begin_warp(const Geometry& geometry, int& eighths, RowSink* sink);
    void push(const std::uint8_t* rgb);
    void finish(const Geometry& geometry, RowSink& sink);
    void finish_canvas(const Geometry& geometry, RowSink& sink);

    Resampler resampler_;
    RowOrienter orienter_;
    AlignedWarp aligned_;
    Warper warper_;
    PlanarImage canvas_, bordered_;
    PlanarSink canvas_sink_;
    NearestSampler nearest_sampler_;
    BorderPainter border_;
    enum class Path { resampler, canvas, aligned, warper } path_ = Path::resampler;
};

}  // namespace stoker
