#include "engine/images/image_runner.h"

#include <algorithm>

namespace stoker {

int ImageRunner::set(const ImageArray& images, std::size_t i, Orientation orientation, Size source) {
    images_ = &images;
    i_ = i;
    geometry_ = images.geometry(i, orientation, source);
    return Renderer::least_eighths(geometry_);
}

Window ImageRunner::begin(int eighths) {
    window_ = renderer_.begin(geometry_, eighths, &sink());
    return window_;
}

// Returns the sink of the rows: the writer, or a whole image if a step or a mean needs all rows first.
RowSink& ImageRunner::sink() {
    const Target target = images_->target(i_);
    const Rectangle dest = images_->dest(i_);
    if (!images_->needs_whole_image(i_)) {
        finisher_.writer().begin(target, dest);
        return finisher_.writer();
    }
    image_.reset(target.height, target.width);
    image_sink_.begin(image_, dest, target.fill);
    return image_sink_;
}

void ImageRunner::push(const std::uint8_t* const* rows, int y, int count, int left) {
    if (window_.empty()) return;
    const int first = std::max(window_.top - y, 0), last = std::min(window_.bottom - y, count);
    for (int row = first; row < last; ++row) renderer_.push(rows[row] + 3 * (window_.left - left));
}

void ImageRunner::finish(WaitingImages& waiting) {
    renderer_.finish(geometry_);
    if (!images_->needs_whole_image(i_)) return finisher_.erase(*images_, i_);
    if (!images_->has_last_steps(i_) || !images_->last_steps->takes_several())
        return finisher_.run(*images_, i_, images_->target(i_), image_);
    finisher_.run_steps(*images_, i_, image_);
    waiting.add(*images_, i_, image_);
}

}  // namespace stoker
