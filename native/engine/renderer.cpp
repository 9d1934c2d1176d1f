#include "engine/renderer.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

bool is_empty(const Window& window) { return window.left == window.right || window.top == window.bottom; }

}  // namespace

// `numerator` is 8, or 0 where the source may be decoded in a smaller size, which is then chosen.
Window Renderer::begin(const Geometry& geometry, int& numerator, RowSink* sink) {
    if (geometry.nearest || geometry.border.rows != nullptr) return begin_canvas(geometry, numerator, sink);
    if (geometry.warp == nullptr) return begin_resampler(geometry, numerator, sink);
    return begin_warp(geometry, numerator, sink);
}

Window Renderer::begin_resampler(const Geometry& geometry, int& numerator, RowSink* sink) {
    path_ = Path::resampler;
    Placement placement = geometry.placement;
    if (sink != nullptr) orienter_.begin(*sink, placement);
    if (placement.x.outputs == 0 || placement.y.outputs == 0) return {};
    if (numerator == 0) {
        numerator = dct_numerator(placement);
        if (!placement.x.reduce(numerator) || !placement.y.reduce(numerator)) {
            placement = geometry.placement;
            numerator = 8;
        }
    }
    const Window window = resampler_.set(placement);
    if (sink == nullptr) return window;
    resampler_.begin(orienter_, window.bottom - window.top);
    return window;
}

Window Renderer::begin_canvas(const Geometry& geometry, int& numerator, RowSink* sink) {
    if (sink == nullptr) return begin_resampler(geometry, numerator, sink);
    canvas_.reset(geometry.frame_height, geometry.frame_width);
    canvas_sink_.begin(canvas_, geometry.placement.dest, geometry.fill);
    const Window window = begin_resampler(geometry, numerator, &canvas_sink_);
    path_ = Path::canvas;
    return window;
}

Window Renderer::begin_warp(const Geometry& geometry, int& numerator, RowSink* sink) {
    WarpMap map(geometry.warp, geometry.placement);
    Footprint footprint = map.footprint(geometry.height, geometry.width);
    if (numerator == 0) {
        numerator = dct_numerator(footprint);
        if (numerator < 8) {
            map.reduce(numerator);
            footprint = map.footprint(geometry.height, geometry.width);
        }
    }
    if (AlignedWarp::fits(map) && sink != nullptr) {
        path_ = Path::aligned;
        return aligned_.begin(map, geometry.height, geometry.width, geometry.fill, *sink);
    }
    path_ = Path::warper;
    return warper_.begin(map, footprint, geometry.height, geometry.width, geometry.fill);
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
    if (geometry.border.rows != nullptr) {
        if (geometry.warp == nullptr)
            return border_.run(canvas_, geometry.border, geometry.height, geometry.width, sink);
        const int height = geometry.canvas_height, width = geometry.canvas_width;
        bordered_.reset(height, width);
        canvas_sink_.begin(bordered_, {0, 0, height, width}, geometry.fill);
        border_.run(canvas_, geometry.border, height, width, canvas_sink_);
        canvas = &bordered_;
    }
    if (geometry.nearest)
        return nearest_sampler_.run(*canvas, geometry.warp, geometry.height, geometry.width, geometry.fill, sink);
    warper_.run(*canvas, geometry.warp, geometry.height, geometry.width, geometry.fill, sink);
}

Outcome Renderer::open_jpeg(const Payload& payload) {
    if (!jpeg_.open(payload.data, payload.size)) return {jpeg_.status(), jpeg_.message()};
    return {};
}

Outcome Renderer::render_jpeg(const Geometry& geometry, RowSink* sink) {
    int numerator = 0;
    const Window window = begin(geometry, numerator, sink);
    if (!is_empty(window) && !jpeg_.start(window, numerator)) return {jpeg_.status(), jpeg_.message()};
    for (int y = window.top; y < window.bottom;) {
        const std::uint8_t* rows[2];
        const int count = jpeg_.read(rows);
        if (count == 0) return {jpeg_.status(), jpeg_.message()};
        if (sink != nullptr)
            for (int row = 0; row < count; ++row) push(rows[row]);
        y += count;
    }
    jpeg_.finish();
    if (sink != nullptr) finish(geometry, *sink);
    return {};
}

void Renderer::render_pixels(const std::uint8_t* pixels, int height, int width, const Geometry& geometry,
                             RowSink& sink) {
    int numerator = 8;
    const Window window = begin(geometry, numerator, &sink);
    const std::size_t stride = static_cast<std::size_t>(width) * 3;
    const std::size_t bytes = static_cast<std::size_t>(window.right - window.left) * 3;
    if (last_row_.size() < bytes + kSlack) last_row_.resize(bytes + kSlack);
    const std::uint8_t* end = pixels + stride * static_cast<std::size_t>(height);
    for (int y = window.top; y < window.bottom; ++y) {
        const std::uint8_t* row =
            pixels + stride * static_cast<std::size_t>(y) + 3 * static_cast<std::size_t>(window.left);
        if (static_cast<std::size_t>(end - row) < bytes + kSlack) {  // kernels read on behind a row
            std::memcpy(last_row_.data(), row, bytes);
            row = last_row_.data();
        }
        push(row);
    }
    finish(geometry, sink);
}

}  // namespace stoker
