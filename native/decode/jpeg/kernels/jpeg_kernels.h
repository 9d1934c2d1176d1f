// The inner loops of the JPEG decoder, one table for each instruction set. All tables give the same bytes, which are
// those of libjpeg-turbo.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "decode/jpeg/baseline/symbol_stream.h"

namespace stoker::jpeg {

// The number of bytes that kernels may read or write past the end of any row of samples.
constexpr int kSampleSlack = 64;
// The same for a row of RGB.
constexpr int kRgbSlack = 3 * kSampleSlack;

struct Unstuffed {
    const std::uint8_t* source;  // the first byte that was not read
    std::size_t bytes;           // that were written
    bool ended;                  // `source` is a marker, or the end
};

// A block of coefficients in natural order, and the first of the rows of its samples.
struct DctBlock {
    const std::int16_t* coefficients;
    std::uint8_t* samples;
};

// The inverse DCTs of blocks with the same quantisation. Rows of samples lie `stride` apart.
using InverseDct = void (*)(const DctBlock* blocks, int count, const std::uint16_t* quanta, std::ptrdiff_t stride);

struct JpegKernels {
    // Copies entropy-coded bytes until the first marker, and removes the zeros after 0xFF. May write kSampleSlack
    // bytes more than the capacity.
    Unstuffed (*unstuff)(const std::uint8_t* source, const std::uint8_t* end, std::uint8_t* out, std::size_t capacity);
    // Returns the first 0xFF that is followed by another byte than 0, or `end`.
    const std::uint8_t* (*find_marker)(const std::uint8_t* begin, const std::uint8_t* end);
    void (*decode_symbols)(SymbolStream& stream, Phase* phase, const Phase* end);
    // Two streams at once, which takes less time than one after the other.
    void (*decode_two)(const SymbolRun& one, const SymbolRun& other);
    unsigned (*skip_symbols)(SymbolStream& stream, SkipPhase* phase, const SkipPhase* end);
    // To blocks of 1, 2, 4 and 8 samples a side.
    std::array<InverseDct, 4> inverse_dct;
    // Triangle filters of libjpeg (jdsample.c). A row has a sample more at both ends.
    void (*upsample_h2v1)(const std::uint8_t* row, int samples, std::uint8_t* out);
    void (*upsample_h2v2)(const std::uint8_t* near, const std::uint8_t* far, int samples, std::uint8_t* out);
    void (*upsample_h1v2)(const std::uint8_t* near, const std::uint8_t* far, int samples, int bias, std::uint8_t* out);
    // Repeats each sample.
    void (*repeat_h2)(const std::uint8_t* row, int samples, std::uint8_t* out);
    // Interleaved RGB of YCbCr (JFIF 1.02) and of grey.
    void (*ycbcr_to_rgb)(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int pixels,
                         std::uint8_t* rgb);
    void (*grey_to_rgb)(const std::uint8_t* y, int pixels, std::uint8_t* rgb);
};

// Returns the kernels of cpu_level().
const JpegKernels& kernels();

// Whether these kernels use vectors; libjpeg-turbo is faster than those that do not.
bool has_vector_kernels();

}  // namespace stoker::jpeg
