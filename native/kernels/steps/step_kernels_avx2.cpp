#if defined(__x86_64__)
#include "kernels/steps/step_loops.h"
#include "kernels/steps/warp_x86.h"

namespace stoker {

extern const StepKernels avx2_step_kernels;
constinit const StepKernels avx2_step_kernels = [] {
    StepKernels kernels = kStepLoops;
    kernels.warp = warp_x86;
    return kernels;
}();

}  // namespace stoker
#endif
