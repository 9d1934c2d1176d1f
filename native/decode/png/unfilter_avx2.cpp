#if defined(__x86_64__)
#include "decode/png/unfilter_loops.h"

namespace stoker::png {

extern const UndoFilter undo_filter_avx2;
const UndoFilter undo_filter_avx2 = undo_by_step;

}  // namespace stoker::png
#endif
