#if defined(__x86_64__)
#include "kernels/axis_loops.h"
#include "kernels/interleave.h"
#include "kernels/kernels.h"
#include "kernels/kernels_avx2.h"
#include "kernels/store_kernels.h"
#include "kernels/vertical_x86.h"

namespace stoker {
namespace {

void prepare(HorizontalPass& pass) { pass.run = horizontal_avx2; }

}  // namespace

extern const Kernels avx2_kernels;
constinit const Kernels avx2_kernels = {
    .axis = axis,
    .prepare = prepare,
    .vertical = vertical,
    .store = store_row,
    .interleave = interleave,
    .deinterleave = deinterleave,
};

}  // namespace stoker
#endif
