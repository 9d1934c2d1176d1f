#if defined(__x86_64__)
#include "cpu/cpu.h"
#include "kernels/steps/step_loops.h"
#include "kernels/steps/warp_x86.h"

namespace stoker {

// Defined in apply_lut_vbmi.cpp.
void apply_lut_vbmi(const std::uint8_t* table, std::uint8_t* values, int count);

namespace {

void apply_lut_avx512(const std::uint8_t* table, std::uint8_t* values, int count) {
    (cpu_features().vbmi ? apply_lut_vbmi : apply_lut)(table, values, count);
}

}  // namespace

extern const StepKernels avx512_step_kernels;
constinit const StepKernels avx512_step_kernels = [] {
    StepKernels kernels = kStepLoops;
    kernels.apply_lut = apply_lut_avx512;
    kernels.warp = warp_x86;
    return kernels;
}();

}  // namespace stoker
#endif
