// The kernels for NEON, which every aarch64 has.
#if defined(__aarch64__)
#include "decode/jpeg/kernels/neon/dct_neon.h"
#include "decode/jpeg/kernels/sample_loops.h"
#include "decode/jpeg/kernels/neon/sample_neon.h"
#include "decode/jpeg/kernels/scan_loops.h"
#include "decode/jpeg/kernels/symbol_loops.h"

namespace stoker::jpeg {

extern const JpegKernels neon_kernels;
const JpegKernels neon_kernels = {
    .unstuff = plain_unstuff,
    .find_marker = plain_find_marker,
    .decode_symbols = decode_symbols,
    .decode_two = decode_two,
    .skip_symbols = skip_symbols,
    .inverse_dct = {each_block<plain_dct1>, each_block<plain_dct2>, each_block<neon_dct4>, each_block<neon_dct8>},
    .upsample_h2v1 = neon_h2v1,
    .upsample_h2v2 = neon_h2v2,
    .upsample_h1v2 = plain_h1v2,
    .repeat_h2 = plain_repeat_h2,
    .ycbcr_to_rgb = neon_ycbcr_to_rgb,
    .grey_to_rgb = neon_grey_to_rgb,
};

}  // namespace stoker::jpeg
#endif
