#include "engine/images/renderer.h"

#include <stdexcept>

#include "decode/read_window.h"

namespace stoker {
namespace {

// Whether the image is resized onto a canvas first, from which a warp or a border then takes its pixels.
bool uses_canvas(const Geometry& geometry) { return geometry.nearest || geometry.border.rows != nullptr; }

// Rows of a kept image that are fetched ahead of their use. The processor does not foresee the jump from row to row of a
// window, and all kept images together are larger than its caches.
constexpr int kAhead = 4, kCacheLine = 64;

void prefetch(const std::uint8_t* bytes, int count) {
    for (int at = 0; at < count; at += kCacheLine) __builtin_prefetch(bytes + at);
}

Footprint footprint_of(const WarpMap& map, const Geometry& geometry) {
    return map.footprint(geometry.output.height, geometry.output.width);
}

}  // namespace

int Renderer::least_eighths(const Geometry& geometry) {
    if (geometry.margin == 0) return 8;
    Resize resize = geometry.resize;
    if (geometry.warp != nullptr && !uses_canvas(geometry))
        return reduced_eighths(footprint_of(WarpMap(geometry.warp, resize), geometry).support, geometry.margin);
    if (resize.x.outputs == 0 || resize.y.outputs == 0) return 1;
    const int eighths = dct_eighths(resize, geometry.margin);
    return resize.x.reduce(eighths) && resize.y.reduce(eighths) ? eighths : 8;
}

Window Renderer::begin(const Geometry& geometry, int eighths, RowSink* sink) {
    sink_ = sink;
    if (uses_canvas(geometry)) return begin_canvas(geometry, eighths);
    if (geometry.warp == nullptr) return begin_resampler(geometry, eighths, sink);
    return begin_warp(geometry, eighths, sink);
}

Window Renderer::begin_resampler(const Geometry& geometry, int eighths, RowSink* sink) {
    path_ = Path::resampler;
    Resize resize = geometry.resize;
    if (sink != nullptr) orienter_.begin(*sink, resize);
    if (resize.x.outputs == 0 || resize.y.outputs == 0) return {};
    // This cannot happen: an output pixel shows at least four pixels of an image that is reduced.
    if (eighths < 8 && (!resize.x.reduce(eighths) || !resize.y.reduce(eighths)))
        throw std::logic_error("a reduced image has no pixel");
    const Window window = resampler_.set(resize);
    if (sink == nullptr) return window;
    resampler_.begin(orienter_, window.bottom - window.top);
    return window;
}

Window Renderer::begin_canvas(const Geometry& geometry, int eighths) {
    if (sink_ == nullptr) return begin_resampler(geometry, eighths, nullptr);
    canvas_.reset(geometry.frame.height, geometry.frame.width);
    canvas_sink_.begin(canvas_, geometry.resize.dest, geometry.fill);
    const Window window = begin_resampler(geometry, eighths, &canvas_sink_);
    path_ = Path::canvas;
    return window;
}

Window Renderer::begin_warp(const Geometry& geometry, int eighths, RowSink* sink) {
    WarpMap map(geometry.warp, geometry.resize);
    if (eighths < 8) map.reduce(eighths);
    if (AlignedWarp::fits(map) && sink != nullptr) {
        path_ = Path::aligned;
        return aligned_.begin(map, geometry.output.height, geometry.output.width, geometry.fill, *sink);
    }
    path_ = Path::warper;
    const Footprint footprint = footprint_of(map, geometry);
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

void Renderer::finish(const Geometry& geometry) {
    switch (path_) {
        case Path::resampler: return orienter_.finish();
        case Path::canvas:
            orienter_.finish();
            return finish_canvas(geometry);
        case Path::aligned: return aligned_.finish();
        case Path::warper: return warper_.finish(*sink_);
    }
}

void Renderer::finish_canvas(const Geometry& geometry) {
    RowSink& sink = *sink_;
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

Outcome Renderer::render(Decoder& decoder, const Geometry& geometry, RowSink& sink) {
    const int eighths = decoder.can_reduce() ? least_eighths(geometry) : 8;
    const Window window = begin(geometry, eighths, &sink);
    const auto take = [&](const std::uint8_t* const* rows, int, int count) {
        for (int row = 0; row < count; ++row) push(rows[row]);
    };
    const Outcome outcome = read_window(decoder, window, eighths, take);
    if (outcome.ok()) finish(geometry);
    return outcome;
}

void Renderer::render(KeptImage& image, int eighths, const Geometry& geometry, RowSink& sink) {
    const Window window = begin(geometry, eighths, &sink);
    for (int y = window.top; y < window.bottom; ++y) {
        if (y + kAhead < window.bottom) prefetch(image.row(y + kAhead) + 3 * window.left, 3 * (window.right - window.left));
        push(image.row(y) + 3 * window.left);
    }
    finish(geometry);
}

}  // namespace stoker
