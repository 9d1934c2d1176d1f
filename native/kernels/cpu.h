// The instruction set that the kernels use, chosen once at run time.
#pragma once

namespace stoker {

enum class CpuLevel { plain, neon, avx2, avx512 };

// The best level of this machine, or the lower one named by STOKER_CPU_LEVEL (plain, avx2, avx512).
CpuLevel cpu_level();

const char* name(CpuLevel level);

}  // namespace stoker
