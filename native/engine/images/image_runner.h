// The execution of one image of a batch: from the rows of a decoder to its slot in the batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/images/image_array.h"
#include "engine/images/image_finisher.h"
#include "engine/last_steps/waiting_images.h"
#include "engine/images/renderer.h"
#include "pixels/planar_image.h"

namespace stoker {

// The resamplers and buffers of an image. A thread has as many runners as it makes images of a sample, and uses
// them for one sample after the other.
class ImageRunner {
  public:
    // Returns the least size, in eighths, at which the stored image may be decoded for image `i`.
    int set(const ImageArray& images, std::size_t i, Orientation orientation, Size source);
    // Prepares for rows of the stored image at `eighths`/8 of its size, and returns the window that is needed.
    Window begin(int eighths);
    // As begin(), for decoding alone: nothing may follow.
    Window begin_decoding(int eighths) { return renderer_.begin(geometry_, eighths, nullptr); }
    // Takes `count` rows of the stored image from row `y` on. They begin at the column `left`. Rows and columns outside
    // the window are left out.
    void push(const std::uint8_t* const* rows, int y, int count, int left);
    // Stores the image, after all rows of the window, or lets it wait for others.
    void finish(WaitingImages& waiting);

  private:
    RowSink& sink();

    const ImageArray* images_ = nullptr;
    std::size_t i_ = 0;
    Geometry geometry_;
    Window window_{};
    Renderer renderer_;
    PlanarImage image_;  // for an image that is needed as a whole
    PlanarSink image_sink_;
    ImageFinisher finisher_;
};

}  // namespace stoker
