// The widest vectors of integers of the instruction set that a file is compiled for: AVX2 or AVX-512.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

// STOKER_MM(add_epi32) is _mm512_add_epi32 or _mm256_add_epi32.
#if defined(__AVX512BW__)
#define STOKER_MM(operation) _mm512_##operation
#else
#define STOKER_MM(operation) _mm256_##operation
#endif

namespace stoker {
namespace {

#if defined(__AVX512BW__)
using Vector = __m512i;
#else
using Vector = __m256i;
#endif
constexpr int kVectorBytes = sizeof(Vector);

inline Vector load(const std::uint8_t* from) {
    Vector loaded;
    std::memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

inline void store(Vector vector, std::uint8_t* to) { std::memcpy(to, &vector, sizeof vector); }

}  // namespace
}  // namespace stoker
