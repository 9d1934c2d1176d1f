#include "kernels/kernels.h"

#include "cpu/cpu.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace stoker {

extern const Kernels plain_kernels;
#if defined(__x86_64__)
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
#endif

const Kernels& kernels() {
#if defined(__x86_64__)
    switch (cpu_level()) {
        case CpuLevel::avx512: return avx512_kernels;
        case CpuLevel::avx2: return avx2_kernels;
        default: break;
    }
#endif
    return plain_kernels;
}

void finish_stores() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

}  // namespace stoker
