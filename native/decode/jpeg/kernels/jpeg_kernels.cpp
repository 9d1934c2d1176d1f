#include "decode/jpeg/kernels/jpeg_kernels.h"

#include "cpu/cpu.h"

namespace stoker::jpeg {

extern const JpegKernels plain_kernels;
#if defined(__x86_64__)
extern const JpegKernels avx2_kernels;
#endif

bool has_vector_kernels() { return &kernels() != &plain_kernels; }

const JpegKernels& kernels() {
#if defined(__x86_64__)
    static const bool avx2 = cpu_level() == CpuLevel::avx2 || cpu_level() == CpuLevel::avx512;
    if (avx2) return avx2_kernels;
#endif
    return plain_kernels;
}

}  // namespace stoker::jpeg
