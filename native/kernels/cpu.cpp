#include "kernels/cpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace stoker {
namespace {

CpuLevel detect() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    // The level of Skylake-X and later. F and BW alone have no byte shuffles of 256 bits.
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx2 && avx512) return CpuLevel::avx512;
    if (avx2) return CpuLevel::avx2;
    return CpuLevel::plain;
#elif defined(__aarch64__)
    return CpuLevel::neon;
#else
    return CpuLevel::plain;
#endif
}

CpuLevel choose() {
    const CpuLevel best = detect();
    const char* wanted = std::getenv("STOKER_CPU_LEVEL");
    if (wanted == nullptr) return best;
    for (const CpuLevel level : {CpuLevel::plain, CpuLevel::avx2, CpuLevel::avx512})
        if (std::strcmp(wanted, name(level)) == 0) return std::min(level, best);
    return best;
}

}  // namespace

CpuLevel cpu_level() {
    static const CpuLevel level = choose();
    return level;
}

const char* name(CpuLevel level) {
    switch (level) {
        case CpuLevel::avx512: return "avx512";
        case CpuLevel::avx2: return "avx2";
        case CpuLevel::neon: return "neon";
        case CpuLevel::plain: break;
    }
    return "plain";
}

}  // namespace stoker
