// The geometry of one sample: from the rows of a decoder to the rows of the output.
#pragma once

#include <cstdint>

#include "decode/decoder.h"
#include "decode/status.h"
#include "engine/composition/kept_images.h"
#include "pixels/planar_image.h"
#include "pixels/rectangle.h"
#include "pixels/row_sink.h"
#include "resample/border.h"
#include "resample/nearest_sampler.h"
#include "resample/resize.h"
#include "resample/row_orienter.h"
#include "resample/resampler.h"
#include "warp/aligned_warp.h"
#include "warp/warper.h"

namespace stoker {

// What happens to the stored image: it is resized onto the output, the canvas of a warp, or the tile of a border.
struct Geometry {
    Resize resize;
    const double* warp = nullptr;  // 3x3, from the output to the canvas; null: no warp
    bool nearest = false;          // the warp takes the nearest pixel of the canvas
    Border border;
    Size frame;  // of the image that resize.dest lies in
    Size canvas;
    Size output;
    const std::uint8_t* fill = nullptr;  // RGB
    // A reduced image has at least this many times the height and width of the output. If it is 0, images are
    // decoded at their full size.
    int margin = 1;
};

// The resamplers of one image. The calls for it are begin(), push() for each row of the window, finish().
class Renderer {
  public:
    // Returns the least size, in eighths, at which a stored image may be decoded if its decoder can reduce.
    static int least_eighths(const Geometry& geometry);
    // Returns the window of the stored image, decoded at `eighths`/8 of its size, that push() needs. The sink gets
    // the rows of resize.dest, or those of the whole output if there is a warp or a border. Without a sink, this
    // only computes the window.
    Window begin(const Geometry& geometry, int eighths, RowSink* sink);
    // Takes the next row of the window, interleaved RGB, followed by kRowSlack readable bytes.
    void push(const std::uint8_t* rgb);
    void finish(const Geometry& geometry);

    // Renders the image that `decoder` has opened.
    Outcome render(Decoder& decoder, const Geometry& geometry, RowSink& sink);
    // Renders an image that was decoded at `eighths`/8 of its size.
    void render(KeptImage& image, int eighths, const Geometry& geometry, RowSink& sink);

  private:
    Window begin_resampler(const Geometry& geometry, int eighths, RowSink* sink);
    Window begin_canvas(const Geometry& geometry, int eighths);
    Window begin_warp(const Geometry& geometry, int eighths, RowSink* sink);
    void finish_canvas(const Geometry& geometry);

    RowSink* sink_ = nullptr;
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
