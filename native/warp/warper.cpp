#include "warp/warper.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stoker {
namespace {

// Narrows [low, high) to [begin, end) and one pixel more, for rounding.
void narrow(int& low, int& high, double begin, double end) {
    low = std::max(low, static_cast<int>(std::floor(begin)) - 1);
    high = std::min(high, static_cast<int>(std::ceil(end)) + 1);
}

// Repeats the last point of a row, because points past the end have no valid coordinates.
void repeat_last(SamplePoints& points, int count) {
    const auto repeat = [count](auto* values) { std::fill(values + count, values + kSamplePoints, values[count - 1]); };
    repeat(points.x);
    repeat(points.y);
    repeat(points.support_x);
    repeat(points.support_y);
}

}  // namespace

const Window& Warper::begin(const WarpMap& map, const Footprint& footprint, int height, int width,
                            const std::uint8_t* fill) {
    map_ = map;
    height_ = height;
    width_ = width;
    fill_ = fill;
    window_ = map.window();
    narrow(window_.left, window_.right, footprint.left, footprint.right);
    narrow(window_.top, window_.bottom, footprint.top, footprint.bottom);
    next_row_ = 0;
    pass_.plane = plane_stride(width);
    line_.resize(3 * static_cast<std::size_t>(pass_.plane) + kRowSlack);
    if (window_.left >= window_.right || window_.top >= window_.bottom) {
        window_ = {};
        return window_;
    }
    const SourcePoint point = map.at(0.5, 0.5);
    by_phase_ = map.affine() && std::max(point.support_x, point.support_y) <= PhaseTable::kMaxSupport;
    margin_ = kPointTaps;
    if (by_phase_) {
        phases_x_.set(point.support_x);
        phases_y_.set(point.support_y);
        margin_ = std::max(phases_x_.taps(), phases_y_.taps());
    }
    fill_margin();
    const std::size_t outputs = (static_cast<std::size_t>(width) + 63) / 64 * 64;
    offset_.assign(outputs, 0);
    weights_x_.assign(outputs, 0);
    weights_y_.assign(outputs, 0);
    return window_;
}

void Warper::fill_margin() {
    const auto margin = static_cast<std::size_t>(margin_);
    const auto columns = static_cast<std::size_t>(window_.right - window_.left + 2 * margin_);
    const auto rows = static_cast<std::size_t>(window_.bottom - window_.top + 2 * margin_);
    stride_ = 3 * columns;
    if (source_.size() < stride_ * rows + kRowSlack) source_.resize(stride_ * rows + kRowSlack);
    for (std::size_t y = 0; y < rows; ++y) {
        std::uint8_t* row = source_.data() + y * stride_;
        if (y < margin || y >= rows - margin) {
            paint(row, static_cast<int>(columns));
        } else {
            paint(row, margin_);
            paint(row + stride_ - 3 * margin, margin_);
        }
    }
}

void Warper::paint(std::uint8_t* pixels, int count) const {
    for (int i = 0; i < count; ++i) std::memcpy(pixels + 3 * i, fill_, 3);
}

std::uint8_t* Warper::origin() {
    return source_.data() + static_cast<std::size_t>(margin_) * (stride_ + 3);
}

void Warper::push(const std::uint8_t* rgb) {
    std::memcpy(origin() + static_cast<std::size_t>(next_row_++) * stride_, rgb,
                3 * static_cast<std::size_t>(window_.right - window_.left));
}

void Warper::finish(RowSink& sink) {
    if (window_.left == window_.right) return uniform(sink);
    pass_.source = origin();
    pass_.stride = static_cast<std::ptrdiff_t>(stride_);
    pass_.offset = offset_.data();
    pass_.weights_x = weights_x_.data();
    pass_.weights_y = weights_y_.data();
    for (int y = 0; y < height_; ++y) {
        if (by_phase_)
            warp_by_phase(y);
        else
            warp_by_points(y);
        sink.row(y, line_.data(), pass_.plane);
    }
}

void Warper::run(const PlanarImage& image, const double* matrix, int height, int width, const std::uint8_t* fill,
                 RowSink& sink) {
    const WarpMap map(matrix, Window{0, 0, image.width(), image.height()});
    const Window window = begin(map, map.footprint(height, width), height, width, fill);
    const int pixels = window.right - window.left;
    rgb_.resize(3 * static_cast<std::size_t>(pixels));
    for (int y = window.top; y < window.bottom; ++y) {
        kernels().interleave(image.row(y) + window.left, image.plane(), pixels, rgb_.data());
        push(rgb_.data());
    }
    finish(sink);
}

void Warper::uniform(RowSink& sink) {
    for (std::size_t c = 0; c < 3; ++c)
        std::memset(line_.data() + c * static_cast<std::size_t>(pass_.plane), fill_[c],
                    static_cast<std::size_t>(width_));
    for (int y = 0; y < height_; ++y) sink.row(y, line_.data(), pass_.plane);
}

void Warper::warp_by_phase(int y) {
    const SourcePoint point = map_.at(0.5, y + 0.5);
    const auto axis = [&](const PhaseTable& phases, double center, double step, int size, std::ptrdiff_t stride) {
        LocateAxis axis;
        axis.begin = phases.begin(center);
        axis.step = std::llround(step * (1 << kFractionBits));
        axis.low = -margin_;
        axis.high = size;
        axis.stride = stride;
        axis.taps = phases.taps();
        return axis;
    };
    LocatePass locate;
    locate.x = axis(phases_x_, point.x - window_.left, map_.step_x(), window_.right - window_.left, 3);
    locate.y = axis(phases_y_, point.y - window_.top, map_.step_y(), window_.bottom - window_.top, pass_.stride);
    locate.outputs = width_;
    locate.offset = offset_.data();
    locate.weights_x = weights_x_.data();
    locate.weights_y = weights_y_.data();
    kernels_.locate(locate);
    pass_.outputs = width_;
    pass_.table_x = phases_x_.weights();
    pass_.table_y = phases_y_.weights();
    pass_.taps_x = phases_x_.taps();
    pass_.taps_y = phases_y_.taps();
    kernels_.warp(pass_, line_.data());
}

void Warper::warp_by_points(int y) {
    for (int x = 0; x < width_; x += kSamplePoints) {
        const int count = std::min(kSamplePoints, width_ - x);
        kernels_.map_points(map_.matrix(), x + 0.5, y + 0.5, points_);
        repeat_last(points_, count);
        const float max_x = *std::max_element(points_.support_x, points_.support_x + kSamplePoints);
        const float max_y = *std::max_element(points_.support_y, points_.support_y + kSamplePoints);
        if (2 * std::max(max_x, max_y) <= kPointTaps)
            set_weights(max_x, max_y);
        else
            set_large_weights();
        const auto stride = static_cast<std::int64_t>(stride_);
        for (std::size_t i = 0; i < kSamplePoints; ++i) {
            offset_[i] = first_y_[i] * stride + 3 * std::int64_t{first_x_[i]};
            weights_x_[i] = static_cast<int>(i) * pass_.taps_x;
            weights_y_[i] = static_cast<int>(i) * pass_.taps_y;
        }
        pass_.outputs = count;
        kernels_.warp(pass_, line_.data() + x);
    }
}

void Warper::set_weights(float max_x, float max_y) {
    const auto axis = [&](const double* centers, const float* supports, float max_support, int begin, int end,
                          std::int32_t* first, std::int16_t* weights) {
        WeighPass pass;
        pass.centers = centers;
        pass.supports = supports;
        pass.origin = begin;
        pass.taps = 2 * static_cast<int>(std::ceil(max_support));
        pass.low = -margin_;
        pass.high = end - begin;
        pass.first = first;
        pass.weights = weights;
        kernels_.weigh_points(pass);
        return pass.taps;
    };
    pass_.taps_x = axis(points_.x, points_.support_x, max_x, window_.left, window_.right, first_x_, block_weights_[0]);
    pass_.taps_y = axis(points_.y, points_.support_y, max_y, window_.top, window_.bottom, first_y_, block_weights_[1]);
    pass_.table_x = block_weights_[0];
    pass_.table_y = block_weights_[1];
}

void Warper::set_large_weights() {
    point_weights_x_.begin(window_.right - window_.left);
    point_weights_y_.begin(window_.bottom - window_.top);
    for (int i = 0; i < kSamplePoints; ++i) {
        point_weights_x_.add(points_.x[i] - window_.left, static_cast<double>(points_.support_x[i]));
        point_weights_y_.add(points_.y[i] - window_.top, static_cast<double>(points_.support_y[i]));
    }
    point_weights_x_.finish();
    point_weights_y_.finish();
    for (int i = 0; i < kSamplePoints; ++i) {
        first_x_[i] = point_weights_x_.first(i);
        first_y_[i] = point_weights_y_.first(i);
    }
    pass_.taps_x = point_weights_x_.taps();
    pass_.taps_y = point_weights_y_.taps();
    pass_.table_x = point_weights_x_.weights();
    pass_.table_y = point_weights_y_.weights();
}

}  // namespace stoker
