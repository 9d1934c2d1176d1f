#include "steps/step_runner.h"

namespace stoker {

void StepRunner::run(const Steps& steps, std::size_t i, PlanarImage& image) {
    image_ = &image;
    pending_ = false;
    for (const auto& step : steps)
        if (step->applies(i)) step->run(i, *this);
    this->image();
}

PlanarImage& StepRunner::image() {
    if (!pending_) return *image_;
    pending_ = false;
    for (int y = 0; y < image_->height(); ++y)
        for (int c = 0; c < 3; ++c)
            step_kernels().apply_lut(tables_.channel[c], image_->row(y) + c * image_->plane(), image_->width());
    return *image_;
}

void StepRunner::apply_lut(const LookupTables& tables) {
    if (!pending_) {
        tables_ = tables;
        pending_ = true;
        return;
    }
    for (int c = 0; c < 3; ++c)
        for (std::uint8_t& value : tables_.channel[c]) value = tables.channel[c][value];
}

const PlanarImage& StepRunner::copy() {
    copy_.copy(image());
    return copy_;
}

std::vector<std::uint8_t>& StepRunner::interleaved() {
    const PlanarImage& from = image();
    interleaved_.resize(3 * static_cast<std::size_t>(from.height()) * static_cast<std::size_t>(from.width()));
    from.interleave(interleaved_.data());
    return interleaved_;
}

StepRunner& StepRunner::inner() {
    if (!inner_) inner_ = std::make_unique<StepRunner>();
    return *inner_;
}

}  // namespace stoker
