// The chunks of a WebP file (RFC 9649, clause 2), as libwebp's demuxer reads them.
#pragma once

#include <webp/demux.h>

#include <cstdint>
#include <memory>

#include "decode/header.h"
#include "decode/status.h"
#include "records/shards.h"

namespace stoker::webp {

// The first image of a file, which is the only one unless it is animated, and where it lies on the canvas.
class WebpFile {
  public:
    // Reads the chunks of a whole file, and the header of its first image. The payload must outlive this object.
    // Throws std::bad_alloc.
    Outcome read(const Payload& payload);
    // Returns the size of the canvas, the orientation and the channels.
    Header header() const;

    int height() const { return height_; }
    int width() const { return width_; }
    const WebPIterator& frame() const { return frame_; }

  private:
    void read_exif();

    std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer_{nullptr, WebPDemuxDelete};
    WebPIterator frame_{};  // points into the payload, and owns nothing
    int height_ = 0, width_ = 0, orientation_ = 1;
    bool has_alpha_ = false;
};

}  // namespace stoker::webp
