#include "cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace stoker {
namespace {

#if defined(__x86_64__)
// The compiler's own __builtin_cpu_supports depends on a run-time library, and Zig's reports no feature at all.
// Numbers of bits: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID, and volume 1, 13.3 (XCR0).
bool has(std::uint32_t word, int bit) { return (word >> bit & 1) != 0; }

std::uint32_t saved_states() {
    std::uint32_t low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

CpuFeatures detect_features() {
    std::uint32_t a = 0, b = 0, c = 0, d = 0;
    CpuFeatures features;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
    features.sse42 = has(c, 20);
    const bool fma = has(c, 12), f16c = has(c, 29), os_saves = has(c, 27);
    if (!os_saves || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
    constexpr std::uint32_t ymm = 0x06, zmm = 0xe6;  // states of XCR0: SSE and AVX; with masks and both halves of ZMM
    const std::uint32_t states = saved_states();
    features.avx2 = (states & ymm) == ymm && has(b, 5) && has(b, 3) && has(b, 8) && fma && f16c;
    features.avx512 = features.avx2 && (states & zmm) == zmm && has(b, 16) && has(b, 17) && has(b, 30) && has(b, 31);
    features.vbmi = features.avx512 && has(c, 1);
    features.vnni = features.avx512 && has(c, 11);
    return features;
}
#else
CpuFeatures detect_features() { return {}; }
#endif

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

const CpuFeatures& cpu_features() {
    static const CpuFeatures features = detect_features();
    return features;
}

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
