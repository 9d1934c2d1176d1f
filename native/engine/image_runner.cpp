#include "engine/image_runner.h"

#include <algorithm>

#include "steps/color_map.h"

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
        writer_.begin(target, dest);
        return writer_;
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

void ImageRunner::finish() {
    renderer_.finish(geometry_);
    if (images_->needs_whole_image(i_)) {
        steps_.run(images_->steps, i_, image_);
        Target target = images_->target(i_);
        std::copy(target.color, target.color + 12, color_);
        if (images_->uses_mean(i_))
            add_mean(color_, images_->parameters.mean_matrix + 9 * i_, image_.mean().data());
        target.color = color_;
        writer_.begin(target, {0, 0, target.height, target.width});
        for (int y = 0; y < target.height; ++y) writer_.row(y, image_.row(y), image_.plane());
    }
    for (const EraseColumns& erase : images_->erase) {
        if (erase.keys == nullptr)
            writer_.erase(erase.box_of(i_), erase.value);
        else
            writer_.erase(erase.box_of(i_), erase.noise_of(i_));
    }
}

}  // namespace stoker
