#include "steps/steps.h"

namespace stoker {

void StepRunner::run(const Steps& steps, std::size_t i, PlanarImage& picture) {
    picture_ = &picture;
    pending_ = false;
    for (const auto& step : steps)
        if (step->applies(i)) step->run(i, *this);
    this->picture();
}

PlanarImage& StepRunner::picture() {
    if (!pending_) return *picture_;
    pending_ = false;
    for (int y = 0; y < picture_->height(); ++y)
        for (int c = 0; c < 3; ++c)
            step_kernels().look_up(tables_.level[c], picture_->row(y) + c * picture_->plane(), picture_->width());
    return *picture_;
}

void StepRunner::look_up(const Tables& tables) {
    if (!pending_) {
        tables_ = tables;
        pending_ = true;
        return;
    }
    for (int c = 0; c < 3; ++c)
        for (std::uint8_t& level : tables_.level[c]) level = tables.level[c][level];
}

const PlanarImage& StepRunner::copy() {
    copy_.copy(picture());
    return copy_;
}

StepRunner& StepRunner::inner() {
    if (!inner_) inner_ = std::make_unique<StepRunner>();
    return *inner_;
}

}  // namespace stoker
