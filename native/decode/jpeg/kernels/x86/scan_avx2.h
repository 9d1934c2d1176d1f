// The search for markers for AVX2, of 32 bytes at a time.
#pragma once

#include <immintrin.h>

#include <bit>

#include "decode/jpeg/kernels/scan_loops.h"

namespace stoker::jpeg {
namespace {

inline std::uint32_t equal_bytes(const std::uint8_t* bytes, __m256i wanted) {
    const __m256i found = _mm256_cmpeq_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)), wanted);
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(found));
}

inline const std::uint8_t* avx2_find_marker(const std::uint8_t* begin, const std::uint8_t* end) {
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi8(-1);
    for (; end - begin > 32; begin += 32) {
        const std::uint32_t markers = equal_bytes(begin, ones) & ~equal_bytes(begin + 1, zero);
        if (markers != 0) return begin + std::countr_zero(markers);
    }
    return plain_find_marker(begin, end);
}

}  // namespace
}  // namespace stoker::jpeg
