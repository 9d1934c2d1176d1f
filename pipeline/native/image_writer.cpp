#include "image_writer.h"

#include <cstring>

namespace stoker {

void ImageWriter::begin(const Target& target, const Rectangle& dest) {
    target_ = target;
    dest_ = dest;
    plane_ = plane_stride(target.width);
    diagonal_ = is_diagonal(target.color);
    const std::size_t bytes = 3 * static_cast<std::size_t>(plane_) + kSlack;
    if (line_.size() < bytes) line_.resize(bytes);
    if (dest.width == target.width && dest.height == target.height) return;
    for (int c = 0; c < 3; ++c)
        std::memset(line_.data() + c * plane_, target.fill[c], static_cast<std::size_t>(plane_));
    for (int y = 0; y < target.height; ++y)
        if (y < dest.top || y >= dest.top + dest.height || dest.width == 0) store(y, line_.data(), plane_);
}

void ImageWriter::write(int y, const std::uint8_t* planes, int plane) {
    if (dest_.width == target_.width) return store(dest_.top + y, planes, plane);
    for (int c = 0; c < 3; ++c)
        std::memcpy(line_.data() + c * plane_ + dest_.left, planes + static_cast<std::ptrdiff_t>(c) * plane,
                    static_cast<std::size_t>(dest_.width));
    store(dest_.top + y, line_.data(), plane_);
}

void ImageWriter::store(int y, const std::uint8_t* planes, int plane) {
    const auto width = static_cast<std::size_t>(target_.width);
    const bool planar = target_.layout == Layout::nchw;
    const std::size_t offset =
        static_cast<std::size_t>(y) * width * (planar ? 1 : channels_of(target_.layout)) * size_of(target_.dtype);
    StorePass pass;
    pass.planes = planes;
    pass.plane = plane;
    pass.width = target_.width;
    pass.color = target_.color;
    pass.out = static_cast<std::uint8_t*>(target_.out) + offset;
    pass.out_plane = static_cast<std::size_t>(target_.height) * width;
    pass.stream = target_.stream;
    kernels().store(pass, target_.dtype, target_.layout, diagonal_);
}

}  // namespace stoker
