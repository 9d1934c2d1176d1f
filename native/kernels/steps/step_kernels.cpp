#include "kernels/steps/step_kernels.h"

#include "cpu/cpu.h"

namespace stoker {

extern const StepKernels plain_step_kernels;
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
    return plain_step_kernels;
}

}  // namespace stoker
