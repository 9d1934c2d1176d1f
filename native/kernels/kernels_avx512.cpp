#if defined(__x86_64__)
#include "cpu/cpu.h"
#include "kernels/axis_loops.h"
#include "kernels/interleave.h"
#include "kernels/kernels.h"
#include "kernels/kernels_avx2.h"
#include "kernels/store_kernels.h"
#include "kernels/vertical_x86.h"

namespace stoker {

// Defined in horizontal_vbmi.cpp. Returns false for a pass that it cannot run.
bool prepare_vbmi(HorizontalPass& pass);

namespace {

void prepare(HorizontalPass& pass) {
    const bool able = cpu_features().vbmi && cpu_features().vnni;
    if (!able || !prepare_vbmi(pass)) pass.run = horizontal_avx2;
}

}  // namespace

extern const Kernels avx512_kernels;
constinit const Kernels avx512_kernels = {
    .axis = axis,
    .prepare = prepare,
    .vertical = vertical,
    .store = store_row,
    .interleave = interleave,
    .deinterleave = deinterleave,
};

}  // namespace stoker
#endif
