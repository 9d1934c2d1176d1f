#include "decode/png/unfilter.h"

#include "cpu/cpu.h"
#include "decode/png/unfilter_loops.h"

namespace stoker::png {

#if defined(__x86_64__)
extern const UndoFilter undo_filter_avx2;
#endif

UndoFilter undo_filter() {
#if defined(__x86_64__)
    if (cpu_level() == CpuLevel::avx2 || cpu_level() == CpuLevel::avx512) return undo_filter_avx2;
#endif
    return undo_by_step;
}

}  // namespace stoker::png
