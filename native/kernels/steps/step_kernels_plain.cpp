#include "kernels/steps/step_loops.h"

namespace stoker {

extern const StepKernels plain_step_kernels;
constinit const StepKernels plain_step_kernels = kStepLoops;

}  // namespace stoker
