#include "pixels/planar_image.h"

#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/steps/step_kernels.h"

namespace stoker {

void PlanarImage::reset(int height, int width) {
    height_ = height;
    width_ = width;
    plane_ = plane_stride(width);
    const std::size_t bytes = stride() * static_cast<std::size_t>(height) + kRowSlack;
    if (bytes_.size() < bytes) bytes_.resize(bytes);
}

void PlanarImage::copy(const PlanarImage& other) {
    reset(other.height_, other.width_);
    std::memcpy(bytes_.data(), other.bytes_.data(), stride() * static_cast<std::size_t>(height_));
}

void PlanarImage::copy(const std::uint8_t* planes, std::size_t plane, int stride) {
    for (int y = 0; y < height_; ++y, planes += stride)
        for (std::size_t c = 0; c < 3; ++c)
            std::memcpy(row(y) + c * static_cast<std::size_t>(plane_), planes + c * plane, static_cast<std::size_t>(width_));
}

std::array<double, 3> PlanarImage::mean() const {
    std::array<std::uint64_t, 3> sums{};
    for (int y = 0; y < height_; ++y)
        for (std::size_t c = 0; c < 3; ++c)
            sums[c] += step_kernels().sum(row(y) + c * static_cast<std::size_t>(plane_), width_);
    const double pixels = static_cast<double>(height_) * width_;
    return {static_cast<double>(sums[0]) / pixels, static_cast<double>(sums[1]) / pixels,
            static_cast<double>(sums[2]) / pixels};
}

void PlanarImage::interleave(std::uint8_t* rgb) const {
    for (int y = 0; y < height_; ++y, rgb += 3 * static_cast<std::ptrdiff_t>(width_))
        kernels().interleave(row(y), plane_, width_, rgb);
}

void PlanarImage::deinterleave(const std::uint8_t* rgb) {
    for (int y = 0; y < height_; ++y, rgb += 3 * static_cast<std::ptrdiff_t>(width_))
        kernels().deinterleave(rgb, width_, row(y), plane_);
}

void PlanarImage::fill(int y, int begin, int end, const std::uint8_t* rgb) {
    for (int c = 0; c < 3; ++c) std::fill(row(y) + c * plane_ + begin, row(y) + c * plane_ + end, rgb[c]);
}

void PlanarSink::begin(PlanarImage& image, const Rectangle& dest, const std::uint8_t* fill) {
    image_ = &image;
    dest_ = dest;
    for (int y = 0; y < image.height(); ++y) {
        const bool inside = y >= dest.top && y < dest.top + dest.height;
        image.fill(y, 0, inside ? dest.left : image.width(), fill);
        if (inside) image.fill(y, dest.left + dest.width, image.width(), fill);
    }
}

void PlanarSink::row(int y, const std::uint8_t* planes, int plane) {
    std::uint8_t* to = image_->row(dest_.top + y) + dest_.left;
    for (int c = 0; c < 3; ++c)
        std::memcpy(to + static_cast<std::ptrdiff_t>(c) * image_->plane(),
                    planes + static_cast<std::ptrdiff_t>(c) * plane, static_cast<std::size_t>(dest_.width));
}

}  // namespace stoker
