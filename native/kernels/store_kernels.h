// The store of a row: colour matrix, element type and layout, in loops that the compiler vectorises.
//
// A file of each instruction set includes this one. So the namespace is unnamed, and the loops do not use the standard
// library: the linker might keep its inline functions in the form for an instruction set that the machine lacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/elements.h"
#include "kernels/float_x16.h"
#include "kernels/interleave.h"
#include "kernels/kernels.h"

namespace stoker {
namespace {

constexpr int kStoreBlock = 64;  // pixels that are computed at once: a multiple of any vector's size

// Products are summed from left to right: the order is part of the result. The loops always compute a whole
// block, also after the row's end, because a number of iterations that is known at compile time is faster.
template <class Out>
void scale_channel(const std::uint8_t* __restrict in, float scale, float shift, Out* __restrict out) {
    for (int x = 0; x < kStoreBlock; ++x) put(static_cast<float>(in[x]) * scale + shift, out[x]);
}

template <class Out>
void mix_channel(const std::uint8_t* __restrict r, const std::uint8_t* __restrict g,
                 const std::uint8_t* __restrict b, const float* m, Out* __restrict out) {
    const float mr = m[0], mg = m[1], mb = m[2], shift = m[3];
    for (int x = 0; x < kStoreBlock; ++x)
        put(static_cast<float>(r[x]) * mr + static_cast<float>(g[x]) * mg + static_cast<float>(b[x]) * mb +
                shift,
            out[x]);
}

// Computes one channel of a block, from pixel `x` on.
template <class Out>
void channel(const StorePass& pass, int c, int x, bool diagonal, Out* out) {
    const std::uint8_t* in = pass.planes + x;
    const float* m = pass.color + 4 * c;
    if (diagonal)
        scale_channel(in + c * pass.plane, m[c], m[3], out);
    else
        mix_channel(in, in + pass.plane, in + 2 * pass.plane, m, out);
}

// Copies bytes that do not change.
inline void channel(const StorePass& pass, int c, int x, bool diagonal, std::uint8_t* out) {
    const float* m = pass.color + 4 * c;
    if (diagonal && m[c] == 1.0F && m[3] == 0.0F)
        std::memcpy(out, pass.planes + c * pass.plane + x, kStoreBlock);
    else
        channel<std::uint8_t>(pass, c, x, diagonal, out);
}

#if defined(__F16C__)
// Converts by an instruction, which compilers do not generate from to_half().
inline void channel(const StorePass& pass, int c, int x, bool diagonal, Half* out) {
    float values[kStoreBlock];
    channel<float>(pass, c, x, diagonal, values);
    for (int i = 0; i < kStoreBlock; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(values + i), 0));
}
#endif

// Stores 64 bytes past the caches. Both pointers are aligned.
inline void stream_line(const std::uint8_t* from, std::uint8_t* to) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(from));
#elif defined(__AVX2__)
    for (int i = 0; i < 64; i += 32)
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                            _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i)));
#else
    std::memcpy(to, from, 64);
#endif
}

// Whether these bytes are stored past the caches: only whole cache lines are.
inline bool streams(const StorePass& pass, const void* out, std::size_t bytes) {
    return pass.stream && (reinterpret_cast<std::uintptr_t>(out) | bytes) % 64 == 0;
}

// Copies a block, which is in the first-level cache, to the batch.
inline void copy_out(const StorePass& pass, const void* block, void* out, std::size_t bytes) {
    if (!streams(pass, out, bytes)) {
        std::memcpy(out, block, bytes);
        return;
    }
    const auto* from = static_cast<const std::uint8_t*>(block);
    auto* to = static_cast<std::uint8_t*>(out);
    for (std::size_t i = 0; i < bytes; i += 64) stream_line(from + i, to + i);
}

// Computes one channel of a row and stores it from registers past the caches. Returns false if that is not possible.
template <class Out>
bool stream_channel(const StorePass&, int, bool, Out*) {
    return false;
}

inline bool stream_channel(const StorePass& pass, int c, bool diagonal, float* out) {
    if (!diagonal || !streams(pass, out, static_cast<std::size_t>(pass.width) * sizeof(float))) return false;
    const std::uint8_t* in = pass.planes + c * pass.plane;
    const float scale = pass.color[5 * c], shift = pass.color[4 * c + 3];
    const int width = pass.width;
    for (int x = 0; x < width; x += 16) {
        FloatX16 values = FloatX16::all(shift);
        values.add(scale, FloatX16::of(in + x));
        values.stream(out + x);
    }
    return true;
}

template <int channels, class Out>
void store_planes(const StorePass& pass, bool diagonal) {
    alignas(64) Out block[kStoreBlock];
    for (int c = 0; c < channels; ++c) {
        auto* out = static_cast<Out*>(pass.out) + static_cast<std::size_t>(c) * pass.out_plane;
        if (stream_channel(pass, c, diagonal, out)) continue;
        for (int x = 0; x < pass.width; x += kStoreBlock) {
            const int width = pass.width - x < kStoreBlock ? pass.width - x : kStoreBlock;
            if (!pass.stream && width == kStoreBlock) {
                channel(pass, c, x, diagonal, out + x);
                continue;
            }
            channel(pass, c, x, diagonal, block);
            copy_out(pass, block, out + x, static_cast<std::size_t>(width) * sizeof(Out));
        }
    }
}

// Interleaves bytes that do not change. Returns false for other pixels.
template <int channels, class Out>
bool store_unchanged(const StorePass&, bool) {
    return false;
}

template <>
inline bool store_unchanged<3, std::uint8_t>(const StorePass& pass, bool diagonal) {
    const float* m = pass.color;
    if (!diagonal || m[0] != 1.0F || m[5] != 1.0F || m[10] != 1.0F) return false;
    if (m[3] != 0.0F || m[7] != 0.0F || m[11] != 0.0F) return false;
    interleave(pass.planes, pass.plane, pass.width, static_cast<std::uint8_t*>(pass.out));
    return true;
}

template <int channels, class Out>
void store_pixels(const StorePass& pass, bool diagonal) {
    if (store_unchanged<channels, Out>(pass, diagonal)) return;
    Out values[3][kStoreBlock];
    alignas(64) Out block[kStoreBlock * channels];
    for (int x = 0; x < pass.width; x += kStoreBlock) {
        const int width = pass.width - x < kStoreBlock ? pass.width - x : kStoreBlock;
        for (int c = 0; c < 3; ++c) channel(pass, c, x, diagonal, values[c]);
        for (int i = 0; i < kStoreBlock; ++i) {
            block[channels * i] = values[0][i];
            block[channels * i + 1] = values[1][i];
            block[channels * i + 2] = values[2][i];
            if (channels == 4) block[channels * i + 3] = Out{};
        }
        copy_out(pass, block, static_cast<Out*>(pass.out) + static_cast<std::size_t>(x) * channels,
                 static_cast<std::size_t>(width) * channels * sizeof(Out));
    }
}

template <class Out>
void store_as(const StorePass& pass, Layout layout, bool diagonal) {
    switch (layout) {
        case Layout::nchw: return store_planes<3, Out>(pass, diagonal);
        case Layout::nhwc: return store_pixels<3, Out>(pass, diagonal);
        case Layout::nhwc4: return store_pixels<4, Out>(pass, diagonal);
        case Layout::grey: return store_planes<1, Out>(pass, diagonal);
    }
}

void store_row(const StorePass& pass, DType dtype, Layout layout, bool diagonal) {
    switch (dtype) {
        case DType::uint8: return store_as<std::uint8_t>(pass, layout, diagonal);
        case DType::float16: return store_as<Half>(pass, layout, diagonal);
        case DType::bfloat16: return store_as<BFloat16>(pass, layout, diagonal);
        case DType::float32: return store_as<float>(pass, layout, diagonal);
    }
}

}  // namespace
}  // namespace stoker
