// Sixteen floats in registers, for sums without loads and stores in between. Each instruction set has its own
// form, so the namespace is unnamed.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace stoker {
namespace {

#if defined(__AVX512F__)
struct FloatX16 {
    __m512 values = _mm512_setzero_ps();

    static FloatX16 all(float value) { return {_mm512_set1_ps(value)}; }
    static FloatX16 of(const float* from) { return {_mm512_loadu_ps(from)}; }
    static FloatX16 of(const std::uint8_t* from) {
        return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))))};
    }
    void add(float weight, const FloatX16& other) {
        values = _mm512_add_ps(values, _mm512_mul_ps(_mm512_set1_ps(weight), other.values));
    }
    void store(float* to) const { _mm512_storeu_ps(to, values); }
    // Stores past the caches; `to` is aligned to 64 bytes.
    void stream(float* to) const { _mm512_stream_ps(to, values); }
};
#elif defined(__AVX2__)
struct FloatX16 {
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();

    static FloatX16 all(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
    static FloatX16 of(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
    static FloatX16 of(const std::uint8_t* from) {
        const auto eight = [&](int at) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si64(from + at))); };
        return {eight(0), eight(8)};
    }
    void add(float weight, const FloatX16& other) {
        low = _mm256_add_ps(low, _mm256_mul_ps(_mm256_set1_ps(weight), other.low));
        high = _mm256_add_ps(high, _mm256_mul_ps(_mm256_set1_ps(weight), other.high));
    }
    void store(float* to) const {
        _mm256_storeu_ps(to, low);
        _mm256_storeu_ps(to + 8, high);
    }
    void stream(float* to) const {
        _mm256_stream_ps(to, low);
        _mm256_stream_ps(to + 8, high);
    }
};
#else
struct FloatX16 {
    float values[16] = {};

    static FloatX16 all(float value) {
        FloatX16 same;
        for (float& one : same.values) one = value;
        return same;
    }
    template <class Number>
    static FloatX16 of(const Number* from) {
        FloatX16 loaded;
        for (int i = 0; i < 16; ++i) loaded.values[i] = static_cast<float>(from[i]);
        return loaded;
    }
    void add(float weight, const FloatX16& other) {
        for (int i = 0; i < 16; ++i) values[i] += weight * other.values[i];
    }
    void store(float* to) const { std::memcpy(to, values, sizeof values); }
    void stream(float* to) const { store(to); }
};
#endif

}  // namespace
}  // namespace stoker
