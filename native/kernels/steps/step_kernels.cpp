#include "cpu/cpu.h"
#include "kernels/steps/step_loops.h"

namespace stoker {

#if defined(__x86_64__)
extern const StepKernels avx2_step_kernels;
extern const StepKernels avx512_step_kernels;
#endif

const StepKernels& step_kernels() {
#if defined(__x86_64__)
    switch (cpu_level()) {
        case CpuLevel::avx512: return avx512_step_kernels;
        case CpuLevel::avx2: return avx2_step_kernels;
        default: break;
    }
#endif
    return kStepLoops;
}

}  // namespace stoker
