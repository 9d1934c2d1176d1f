#include "cpu/cpu.h"

#include "cpu/cpu_features.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace stoker {
namespace {

CpuLevel detect() {
#if defined(__aarch64__)
    return CpuLevel::neon;
#else
    const CpuFeatures& features = cpu_features();
    if (features.avx512) return CpuLevel::avx512;
    return features.avx2 ? CpuLevel::avx2 : CpuLevel::plain;
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
