#include "decode/webp/webp_file.h"

#include <algorithm>

#include "decode/header_bytes.h"

namespace stoker::webp {
namespace {

constexpr std::size_t kRiffHeader = 8;  // "RIFF" and the number of bytes that follow

}  // namespace

Outcome WebpFile::read(const Payload& payload) {
    const HeaderBytes bytes{payload.data, payload.size};
    if (payload.size < 12 || !bytes.starts_with("RIFF", 4) || std::memcmp(payload.data + 8, "WEBP", 4) != 0)
        return {Status::not_decodable, "not a WebP"};
    if (bytes.little32(4) + std::uint64_t{kRiffHeader} > payload.size)
        return {Status::truncated, "the file ends before the image does"};
    const WebPData data{payload.data, payload.size};
    demuxer_.reset(WebPDemux(&data));
    if (demuxer_ == nullptr || WebPDemuxGetFrame(demuxer_.get(), 1, &frame_) == 0)
        return {Status::not_decodable, "the chunks of the WebP are damaged"};
    height_ = static_cast<int>(WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_HEIGHT));
    width_ = static_cast<int>(WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_WIDTH));
    has_alpha_ = (WebPDemuxGetI(demuxer_.get(), WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG) != 0;
    // The decoder counts on an image that lies on the canvas.
    const bool outside = frame_.x_offset < 0 || frame_.y_offset < 0 || frame_.width > width_ - frame_.x_offset ||
                         frame_.height > height_ - frame_.y_offset;
    if (height_ < 1 || width_ < 1 || outside) return {Status::not_decodable, "an image lies outside the canvas"};
    read_exif();
    return {};
}

void WebpFile::read_exif() {
    orientation_ = 1;
    WebPChunkIterator chunk;
    if (WebPDemuxGetChunk(demuxer_.get(), "EXIF", 1, &chunk) == 0) return;
    HeaderBytes exif{chunk.chunk.bytes, chunk.chunk.size};
    // Some programs begin with what stands before EXIF in a JPEG.
    while (exif.starts_with("Exif\0\0", 6)) exif = exif.part(6, exif.size);
    orientation_ = std::max(1, tiff_orientation(exif));
    WebPDemuxReleaseChunkIterator(&chunk);
}

Header WebpFile::header() const {
    Header header;
    header.width = width_;
    header.height = height_;
    header.orientation = orientation_;
    header.channels = has_alpha_ ? 4 : 3;
    return header;
}

}  // namespace stoker::webp
