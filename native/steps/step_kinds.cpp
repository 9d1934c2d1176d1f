#include "steps/step_kinds.h"

namespace stoker {

extern const StepKind affine_step, table_step, posterize_step, solarize_step, autocontrast_step, equalize_step,
    sharpen_step, blur_step, distort_step, weighted_sum_step;

std::span<const StepKind* const> step_kinds() {
    static constexpr const StepKind* kinds[] = {
        &affine_step,       &table_step,    &posterize_step, &solarize_step, &autocontrast_step,
        &equalize_step,     &sharpen_step,  &blur_step,      &distort_step,    &weighted_sum_step,
    };
    return kinds;
}

}  // namespace stoker
