// Loops over the bytes of entropy-coded data, in plain C++.
#pragma once

#include <algorithm>
#include <cstring>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker::jpeg {
namespace {

inline const std::uint8_t* find_byte(const std::uint8_t* begin, const std::uint8_t* end, int byte) {
    const void* found = std::memchr(begin, byte, static_cast<std::size_t>(end - begin));
    return found == nullptr ? end : static_cast<const std::uint8_t*>(found);
}

inline const std::uint8_t* plain_find_marker(const std::uint8_t* begin, const std::uint8_t* end) {
    while (true) {
        const std::uint8_t* found = find_byte(begin, end, 0xFF);
        if (end - found < 2) return end;
        if (found[1] != 0) return found;
        begin = found + 2;
    }
}

inline Unstuffed plain_unstuff(const std::uint8_t* source, const std::uint8_t* end, std::uint8_t* out,
                               std::size_t capacity) {
    std::size_t bytes = 0;
    while (bytes < capacity) {
        const auto room = static_cast<std::ptrdiff_t>(capacity - bytes);
        const std::uint8_t* stop = find_byte(source, source + std::min(room, end - source), 0xFF);
        std::memcpy(out + bytes, source, static_cast<std::size_t>(stop - source));
        bytes += static_cast<std::size_t>(stop - source);
        source = stop;
        if (bytes == capacity) break;
        if (end - source < 2 || source[1] != 0) return {source, bytes, true};
        out[bytes++] = 0xFF;
        source += 2;
    }
    return {source, bytes, false};
}

}  // namespace
}  // namespace stoker::jpeg
