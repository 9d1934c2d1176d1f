// The instruction sets of x86-64 that this processor has and the operating system saves at a switch of threads.
#pragma once

namespace stoker {

struct CpuFeatures {
    bool sse42 = false;
    bool avx2 = false;    // with FMA, F16C, BMI1 and BMI2
    bool avx512 = false;  // the level of Skylake-X: F, BW, VL and DQ
    bool vbmi = false;    // AVX-512's byte permutations
    bool vnni = false;    // AVX-512's dot products of bytes
};

// Returns the features of this processor; all are false on another architecture.
const CpuFeatures& cpu_features();

}  // namespace stoker
