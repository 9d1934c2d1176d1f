// The kernels of resizing and storing, one table for each instruction set. All tables give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

enum class DType { uint8, float16, bfloat16, float32 };
// Images of one channel, `grey`, store the first of three equal channels.
enum class Layout { nchw = 0, nhwc = 1, nhwc4 = 2, grey = 3 };

// The number of bytes past the end of any row that kernels may read or write.
constexpr int kRowSlack = 128;

// The number of fraction bits of a weight: 1.0 is 16384, the largest power of two in int16.
constexpr int kWeightBits = 14;

// Returns the distance of planes, in bytes, of a row of `width` pixels. A row is three planes, red first.
constexpr int plane_stride(int width) { return (width + 16 + 63) / 64 * 64; }

// The bytes of a horizontal pass's table, for groups of at least eight outputs.
constexpr std::size_t kGroupBytes = 256;
constexpr std::size_t table_bytes(int outputs) { return static_cast<std::size_t>((outputs + 7) / 8) * kGroupBytes; }

// One axis of a resize. The centres of outputs lie `scale` apart, the first at begin + scale / 2. Each output
// has `used` taps. Its filter reaches `support` to both sides, and its first tap is the filter's first pixel,
// clamped to [low, last].
struct AxisPass {
    int outputs = 0;
    double begin = 0, scale = 1, support = 1;
    bool reversed = false;  // outputs go backwards
    std::int32_t low = 0, last = 0;
    int used = 0;
    float slope = 1;                  // of a triangle: 1 / its support
    std::int32_t* first = nullptr;    // the first tap of each output
    float* offset = nullptr;          // from the output's centre to the first tap's
    std::int16_t* weights = nullptr;  // `used` of each output, padded to an even number by 0; null: not computed
};

// The resize of one row, from interleaved RGB to three planes. Each output is a weighted sum of `taps` pixels.
// `first` and `weights` belong to an Axis, with its slack.
struct HorizontalPass {
    int outputs = 0;
    int taps = 0;
    const std::int32_t* first = nullptr;
    const std::int16_t* weights = nullptr;
    bool negative_lobes = false;  // some weights are negative, so sums may leave the range of uint8
    int plane = 0;
    void* table = nullptr;  // memory for `run`: table_bytes(outputs) bytes, aligned to 64
    void (*run)(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) = nullptr;
};

// The weighted sum of rows of planes, byte by byte.
struct VerticalPass {
    const std::uint8_t* const* rows = nullptr;  // `taps` rows; a row of weight 0 is ignored
    const std::int16_t* weights = nullptr;
    bool negative_lobes = false;
    int taps = 0;
    int bytes = 0;
};

// The store of a row of planes as pixels of the batch.
struct StorePass {
    const std::uint8_t* planes = nullptr;
    int plane = 0;
    int width = 0;
    const float* color = nullptr;  // 3x4, row-major
    void* out = nullptr;           // the row's first element
    std::size_t out_plane = 0;     // elements between planes, for NCHW only
    bool stream = false;           // stores aligned cache lines past the caches, for batches that do not fit into them
};

// To add a kernel, add a member here and an initialiser to each of the three tables: a table that lacks a
// member does not compile.
struct Kernels {
    void (*axis)(const AxisPass& pass);
    // Chooses the function that runs a pass, and fills the pass's table, once for all rows.
    void (*prepare)(HorizontalPass& pass);
    void (*vertical)(const VerticalPass& pass, std::uint8_t* out);
    void (*store)(const StorePass& pass, DType dtype, Layout layout, bool diagonal);
    // Between a row of planes, `plane` bytes apart, and 3 * width bytes of interleaved RGB.
    void (*interleave)(const std::uint8_t* planes, std::ptrdiff_t plane, int width, std::uint8_t* rgb);
    void (*deinterleave)(const std::uint8_t* rgb, int width, std::uint8_t* planes, std::ptrdiff_t plane);
};

// Returns the kernels of cpu_level().
const Kernels& kernels();

// Makes streamed bytes visible to other threads that learn of them afterwards.
void finish_stores();

constexpr std::size_t size_of(DType dtype) {
    return dtype == DType::uint8 ? 1 : dtype == DType::float32 ? 4 : 2;
}
constexpr std::size_t channels_of(Layout layout) {
    return layout == Layout::nhwc4 ? 4 : layout == Layout::grey ? 1 : 3;
}

// Whether a 3x4 colour matrix scales and shifts each channel separately.
inline bool is_diagonal(const float* color) {
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column)
            if (row != column && color[4 * row + column] != 0.0F) return false;
    return true;
}

}  // namespace stoker
