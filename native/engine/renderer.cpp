#include "engine/renderer.h"

namespace stoker {

// `eighths` is 8 if the image is decoded at its full size; otherwise it is 0, and this chooses it.
Window Renderer::begin(const Geometry& geometry, int& eighths, RowSink* sink) {
    if (geometry.nearest || geometry.border.rows != nullptr) return begin_canvas(geometry, eighths, sink);
    if (geometry.warp == nullptr) return begin_resampler(geometry, eighths, sink);
    return begin_warp(geometry, eighths, sink);
}

Window Renderer::begin_resampler(const Geometry& geometry, int& eighths, RowSink* sink) {
    path_ = Path::resampler;
    Placement placement = geometry.placement;
    if (sink != nullptr) orienter_.begin(*sink, placement);
    if (placement.x.outputs == 0 || placement.y.outputs == 0) return {};
    if (eighths == 0) {
        eighths = dct_eighths(placement, geometry.margin);
        if (!placement.x.reduce(eighths) || !placement.y.reduce(eighths)) {
            placement = geometry.placement;
            eighths = 8;
        }
    }
    const Window window = resampler_.set(placement);
    if (sink == nullptr) return window;
    resampler_.begin(orienter_, window.bottom - window.top);
    return window;
}

Window Renderer::begin_canvas(const Geometry& geometry, int& eighths, RowSink* sink) {
    if (sink == nullptr) return begin_resampler(geometry, eighths, sink);
    canvas_.reset(geometry.frame.height, geometry.frame.width);
    canvas_sink_.begin(canvas_, geometry.placement.dest, geometry.fill);
    const Window window = begin_resampler(geometry, eighths, &canvas_sink_);
    path_ = Path::canvas;
    return window;
}

Window Renderer::begin_warp(const Geometry& geometry, int& eighths, RowSink* sink) {
    WarpMap map(geometry.warp, geometry.placement);
    Footprint footprint = map.footprint(geometry.output.height, geometry.output.width);
    if (eighths == 0) {
        eighths = dct_eighths(footprint, geometry.margin);
        if (eighths < 8) {
            map.reduce(eighths);
            footprint = map.footprint(geometry.output.height, geometry.output.width);
        }
    }
    if (AlignedWarp::fits(map) && sink != nullptr) {
        path_ = Path::aligned;
        return aligned_.begin(map, geometry.output.height, geometry.output.width, geometry.fill, *sink);
    }
    path_ = Path::warper;
    return warper_.begin(map, footprint, geometry.output.height, geometry.output.width, geometry.fill);
}

void Renderer::push(const std::uint8_t* rgb) {
    switch (path_) {
        case Path::resampler:
        case Path::canvas: return resampler_.push(rgb);
        case Path::aligned: return aligned_.push(rgb);
        case Path::warper: return warper_.push(rgb);
    }
}

void Renderer::finish(const Geometry& geometry, RowSink& sink) {
    switch (path_) {
        case Path::resampler: return orienter_.finish();
        case Path::canvas:
            orienter_.finish();
            return finish_canvas(geometry, sink);
        case Path::aligned: return aligned_.finish();
        case Path::warper: return warper_.finish(sink);
    }
}

void Renderer::finish_canvas(const Geometry& geometry, RowSink& sink) {
    const PlanarImage* canvas = &canvas_;
    const auto [height, width] = geometry.output;
    if (geometry.border.rows != nullptr) {
        if (geometry.warp == nullptr) return border_.run(canvas_, geometry.border, height, width, sink);
        const Size size = geometry.canvas;
        bordered_.reset(size.height, size.width);
        canvas_sink_.begin(bordered_, {0, 0, size.height, size.width}, geometry.fill);
        border_.run(canvas_, geometry.border, size.height, size.width, canvas_sink_);
        canvas = &bordered_;
    }
    if (geometry.nearest) return nearest_sampler_.run(*canvas, geometry.warp, height, width, geometry.fill, sink);
    warper_.run(*canvas, geometry.warp, height, width, geometry.fill, sink);
}

Outcome Renderer::render(Decoder& decoder, const Geometry& geometry, RowSink* sink) {
    int eighths = decoder.can_reduce() && geometry.margin > 0 ? 0 : 8;
    const Window window = begin(geometry, eighths, sink);
    if (!window.empty() && !decoder.start(window, eighths)) return decoder.failure();
    for (int y = window.top; y < window.bottom;) {
        const std::uint8_t* rows[Decoder::kMaxRows];
        const int count = decoder.read(rows);
        if (count == 0) return decoder.failure();
        if (sink != nullptr)
            for (int row = 0; row < count; ++row) push(rows[row]);
        y += count;
    }
    decoder.finish();
    if (sink != nullptr) finish(geometry, *sink);
    return {};
}

}  // namespace stoker
