#include "pixels/image_writer.h"

#include <cstring>

#include "kernels/elements.h"

namespace stoker {

void ImageWriter::begin(const Target& target, const Rectangle& dest) {
    target_ = target;
    dest_ = dest;
    plane_ = plane_stride(target.width);
    diagonal_ = is_diagonal(target.color);
    const std::size_t bytes = 3 * static_cast<std::size_t>(plane_) + kRowSlack;
    if (line_.size() < bytes) line_.resize(bytes);
    if (target.width != target.array_width || target.height != target.array_height) clear_padding();
    if (dest.width == target.width && dest.height == target.height) return;
    for (int c = 0; c < 3; ++c)
        std::memset(line_.data() + c * plane_, target.fill[c], static_cast<std::size_t>(plane_));
    for (int y = 0; y < target.height; ++y)
        if (y < dest.top || y >= dest.top + dest.height || dest.width == 0) store(y, line_.data(), plane_);
}

// Writes zeros to the right of the image and below it.
void ImageWriter::clear_padding() {
    const std::size_t planes = target_.layout == Layout::nchw ? 3 : 1;
    const std::size_t right = bytes_to(0, target_.array_width - target_.width);
    const std::size_t below = bytes_to(target_.array_height - target_.height, 0);
    auto* plane = static_cast<std::uint8_t*>(target_.out);
    for (std::size_t c = 0; c < planes; ++c, plane += bytes_to(target_.array_height, 0)) {
        for (int y = 0; y < target_.height; ++y) std::memset(plane + bytes_to(y, target_.width), 0, right);
        std::memset(plane + bytes_to(target_.height, 0), 0, below);
    }
}

void ImageWriter::row(int y, const std::uint8_t* planes, int plane) {
    if (dest_.width == target_.width) return store(dest_.top + y, planes, plane);
    for (int c = 0; c < 3; ++c)
        std::memcpy(line_.data() + c * plane_ + dest_.left, planes + static_cast<std::ptrdiff_t>(c) * plane,
                    static_cast<std::size_t>(dest_.width));
    store(dest_.top + y, line_.data(), plane_);
}

void ImageWriter::erase(const Rectangle& box, const float* value) {
    finish_stores();  // streamed stores must come before the stores below
    const float color[12] = {0, 0, 0, value[0], 0, 0, 0, value[1], 0, 0, 0, value[2]};
    StorePass pass = pass_of(box.top, box.left);
    pass.planes = line_.data();  // the colour map ignores the pixels
    pass.plane = plane_;
    pass.width = box.width;
    pass.color = color;
    pass.stream = false;
    const std::size_t row_bytes = bytes_to(1, 0);
    for (int y = 0; y < box.height; ++y) {
        kernels().store(pass, target_.dtype, target_.layout, true);
        pass.out = static_cast<std::uint8_t*>(pass.out) + row_bytes;
    }
}

void ImageWriter::erase(const Rectangle& box, const Noise& noise) {
    finish_stores();
    switch (target_.dtype) {
        case DType::uint8: return write<std::uint8_t>(box, noise);
        case DType::float16: return write<Half>(box, noise);
        case DType::bfloat16: return write<BFloat16>(box, noise);
        case DType::float32: return write<float>(box, noise);
    }
}

template <class Out>
void ImageWriter::write(const Rectangle& box, const Noise& noise) {
    const bool planar = target_.layout == Layout::nchw;
    const std::size_t channels = target_.layout == Layout::grey ? 1 : 3;
    const std::size_t width = static_cast<std::size_t>(target_.array_width);
    const std::size_t step = planar ? 1 : channels_of(target_.layout);
    const std::size_t channel = planar ? width * static_cast<std::size_t>(target_.array_height) : 1;
    auto* out = static_cast<Out*>(target_.out);
    for (int y = box.top; y < box.top + box.height; ++y)
        for (int x = box.left; x < box.left + box.width; ++x) {
            const auto row = static_cast<std::size_t>(y), column = static_cast<std::size_t>(x);
            const std::size_t pixel = row * width + column;
            float rgb[3];
            noise.at(row * static_cast<std::size_t>(target_.width) + column, rgb);
            for (std::size_t c = 0; c < channels; ++c) put(rgb[c], out[pixel * step + c * channel]);
        }
}

std::size_t ImageWriter::bytes_to(int rows, int columns) const {
    const std::size_t pixels = static_cast<std::size_t>(rows) * static_cast<std::size_t>(target_.array_width) +
                               static_cast<std::size_t>(columns);
    return pixels * (target_.layout == Layout::nchw ? 1 : channels_of(target_.layout)) * size_of(target_.dtype);
}

StorePass ImageWriter::pass_of(int y, int x) const {
    StorePass pass;
    pass.width = target_.width;
    pass.color = target_.color;
    pass.out = static_cast<std::uint8_t*>(target_.out) + bytes_to(y, x);
    pass.out_plane = static_cast<std::size_t>(target_.array_height) * static_cast<std::size_t>(target_.array_width);
    pass.stream = target_.stream;
    return pass;
}

void ImageWriter::store(int y, const std::uint8_t* planes, int plane) {
    StorePass pass = pass_of(y, 0);
    pass.planes = planes;
    pass.plane = plane;
    kernels().store(pass, target_.dtype, target_.layout, diagonal_);
}

}  // namespace stoker
