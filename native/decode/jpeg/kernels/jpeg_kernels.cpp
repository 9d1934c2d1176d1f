#include "decode/jpeg/kernels/jpeg_kernels.h"

#include "cpu/cpu.h"

namespace stoker::jpeg {

extern const JpegKernels plain_kernels;
#if defined(__x86_64__)
extern const JpegKernels avx2_kernels;
extern const JpegKernels vbmi_kernels;
#elif defined(__aarch64__)
extern const JpegKernels neon_kernels;
#endif

namespace {

const JpegKernels& choose() {
#if defined(__x86_64__)
    const CpuLevel level = cpu_level();
    if (level == CpuLevel::avx512 && cpu_features().vbmi) return vbmi_kernels;
    if (level == CpuLevel::avx512 || level == CpuLevel::avx2) return avx2_kernels;
#elif defined(__aarch64__)
    if (cpu_level() == CpuLevel::neon) return neon_kernels;
#endif
    return plain_kernels;
}

}  // namespace

bool has_vector_kernels() { return &kernels() != &plain_kernels; }

const JpegKernels& kernels() {
    static const JpegKernels& chosen = choose();
    return chosen;
}

}  // namespace stoker::jpeg
