// The kernels in plain C++.
#include "decode/jpeg/kernels/dct_loops.h"
#include "decode/jpeg/kernels/sample_loops.h"
#include "decode/jpeg/kernels/scan_loops.h"
#include "decode/jpeg/kernels/symbol_loops.h"

namespace stoker::jpeg {

extern const JpegKernels plain_kernels;
const JpegKernels plain_kernels = {
    .unstuff = plain_unstuff,
    .find_marker = plain_find_marker,
    .decode_symbols = decode_symbols,
    .decode_two = decode_two,
    .skip_symbols = skip_symbols,
    .inverse_dct = {each_block<plain_dct1>, each_block<plain_dct2>, each_block<plain_dct4>, each_block<plain_dct8>},
    .upsample_h2v1 = plain_h2v1,
    .upsample_h2v2 = plain_h2v2,
    .upsample_h1v2 = plain_h1v2,
    .repeat_h2 = plain_repeat_h2,
    .ycbcr_to_rgb = plain_ycbcr_to_rgb,
    .grey_to_rgb = plain_grey_to_rgb,
};

}  // namespace stoker::jpeg
