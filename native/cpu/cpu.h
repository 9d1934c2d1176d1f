// The CPU level: the instruction set of the kernels, which is chosen once at run time.
#pragma once

namespace stoker {

enum class CpuLevel { plain, neon, avx2, avx512 };

// Returns the best level of this machine, or the lower one that STOKER_CPU_LEVEL names (plain, avx2, avx512).
CpuLevel cpu_level();

const char* name(CpuLevel level);

}  // namespace stoker
