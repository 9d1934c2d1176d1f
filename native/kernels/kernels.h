// The loops that take the time, for each instruction set. All give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

enum class DType { uint8, float16, bfloat16, float32 };
enum class Layout { nchw = 0, nhwc = 1, nhwc4 = 2 };

// Bytes that may be read or written past the end of any row given to a kernel.
constexpr int kRowSlack = 128;

// Fraction bits of a weight: 1.0 is 16384, the largest power of two within int16.
constexpr int kWeightBits = 14;

// Pixels of a row and a plane's distance in bytes: rows are three planes of `plane` bytes, red first.
constexpr int plane_stride(int width) { return (width + 16 + 63) / 64 * 64; }

// What the table of a horizontal pass takes, with eight outputs in a group.
constexpr std::size_t kGroupBytes = 256;
constexpr std::size_t table_bytes(int outputs) { return static_cast<std::size_t>((outputs + 7) / 8) * kGroupBytes; }

// One axis of a resize. Centres of outputs lie `scale` apart, half of that from `begin`; each has `used` samples, the
// first within [low, last] and as near as may be to where a filter begins that reaches `support` to both sides.
struct AxisPass {
    int outputs = 0;
    double begin = 0, scale = 1, support = 1;
    bool reversed = false;  // outputs go backwards
    std::int32_t low = 0, last = 0;
    int used = 0;
    float slope = 1;                  // of a triangle
    std::int32_t* first = nullptr;    // the first sample of each output
    float* offset = nullptr;          // how far that lies from the output's centre
    std::int16_t* weights = nullptr;  // of a triangle, `used` of each, and a 0 to make them even; null: not wanted
};

// One row of interleaved RGB to one row of three planes, each output a weighted sum of `taps` pixels.
// `first` and `weights` are an Axis', with its slack.
struct HorizontalPass {
    int outputs = 0;
    int taps = 0;
    const std::int32_t* first = nullptr;
    const std::int16_t* weights = nullptr;
    bool negative_lobes = false;  // some weights are negative, so that sums leave the range of levels
    int plane = 0;
    void* table = nullptr;  // room for what `run` needs to know, of table_bytes(outputs), aligned to 64
    void (*run)(const HorizontalPass& pass, const std::uint8_t* rgb, std::uint8_t* planes) = nullptr;
};

// Rows of planes to one row, byte by byte.
struct VerticalPass {
    const std::uint8_t* const* rows = nullptr;  // `taps` of them; those of weight 0 may hold anything
    const std::int16_t* weights = nullptr;
    bool negative_lobes = false;
    int taps = 0;
    int bytes = 0;
};

// Where and how a row of planes is stored as pixels of the batch.
struct StorePass {
    const std::uint8_t* planes = nullptr;
    int plane = 0;
    int width = 0;
    const float* color = nullptr;  // 3x4, row-major
    void* out = nullptr;           // the row's first element
    std::size_t out_plane = 0;     // elements between planes, NCHW only
    bool stream = false;           // past the caches, where aligned: for batches that do not fit into them
};

// Each instruction set has a table of its own; a table that lacks a member does not compile.
struct Kernels {
    void (*axis)(const AxisPass& pass);
    // Chooses what runs a pass, and fills the table: once for all rows.
    void (*prepare)(HorizontalPass& pass);
    void (*vertical)(const VerticalPass& pass, std::uint8_t* out);
    void (*store)(const StorePass& pass, DType dtype, Layout layout, bool diagonal);
};

// Those of cpu_level().
const Kernels& kernels();

// To be called before other threads are told that streamed bytes are there.
void finish_stores();

constexpr std::size_t size_of(DType dtype) {
    return dtype == DType::uint8 ? 1 : dtype == DType::float32 ? 4 : 2;
}
constexpr std::size_t channels_of(Layout layout) { return layout == Layout::nhwc4 ? 4 : 3; }

// Whether a 3x4 colour matrix scales and shifts each channel by itself.
inline bool is_diagonal(const float* color) {
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column)
            if (row != column && color[4 * row + column] != 0.0F) return false;
    return true;
}

}  // namespace stoker
