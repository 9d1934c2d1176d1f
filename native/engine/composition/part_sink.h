// The writer of one sample into an image that is made of several.
#pragma once

#include "engine/images/renderer.h"
#include "pixels/planar_image.h"
#include "pixels/row_sink.h"

namespace stoker {

// Writes the rows of a part into an image, and leaves the rest of the image as it is. Of a warped part, only the pixels
// whose centres the warp maps into the part's rectangle of the canvas are written.
class PartSink final : public RowSink {
  public:
    void begin(PlanarImage& image, const Geometry& geometry);
    void row(int y, const std::uint8_t* planes, int plane) override;

  private:
    struct Span {
        int begin, end;
    };
    Span seen(int y) const;

    PlanarImage* image_ = nullptr;
    Rectangle dest_{};
    const double* warp_ = nullptr;
};

}  // namespace stoker
