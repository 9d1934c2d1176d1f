// The kernels for AVX-512 with VBMI, or those for AVX2 where AVX-512 is no faster.
#if defined(__x86_64__)
#include "decode/jpeg/kernels/x86/dct_reduced_avx2.h"
#include "decode/jpeg/kernels/x86/sample_avx2.h"
#include "decode/jpeg/kernels/x86/sample_avx512.h"
#include "decode/jpeg/kernels/sample_loops.h"
#include "decode/jpeg/kernels/x86/scan_avx2.h"
#include "decode/jpeg/kernels/scan_loops.h"
#include "decode/jpeg/kernels/symbol_loops.h"

namespace stoker::jpeg {

extern const JpegKernels vbmi_kernels;
const JpegKernels vbmi_kernels = {
    .unstuff = plain_unstuff,
    .find_marker = avx2_find_marker,
    .decode_symbols = decode_symbols,
    .decode_two = decode_two,
    .skip_symbols = skip_symbols,
    .inverse_dct = {each_block<plain_dct1>, each_pair<dct2_pair>, each_pair<dct4_pair>, each_pair<dct8_pair>},
    .upsample_h2v1 = avx2_h2v1,
    .upsample_h2v2 = avx512_h2v2,
    .upsample_h1v2 = plain_h1v2,
    .repeat_h2 = plain_repeat_h2,
    .ycbcr_to_rgb = avx512_ycbcr_to_rgb,
    .grey_to_rgb = avx2_grey_to_rgb,
};

}  // namespace stoker::jpeg
#endif
