// The features of the processor, and the CPU level: the instruction set of the kernels, which is chosen once at run time.
#pragma once

namespace stoker {

// The instruction sets of x86-64 that this processor has and the operating system saves at a switch of threads.
struct CpuFeatures {
    bool sse42 = false;
    bool avx2 = false;    // with FMA, F16C, BMI1 and BMI2
    bool avx512 = false;  // the level of Skylake-X: F, BW, VL and DQ
    bool vbmi = false;    // AVX-512's byte permutations
    bool vnni = false;    // AVX-512's dot products of bytes
};

// Returns the features of this processor; all are false on another architecture.
const CpuFeatures& cpu_features();

enum class CpuLevel { plain, neon, avx2, avx512 };

// Returns the best level of this machine, or the lower one that STOKER_CPU_LEVEL names (plain, avx2, avx512).
CpuLevel cpu_level();

const char* name(CpuLevel level);

}  // namespace stoker
