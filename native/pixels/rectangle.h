// Sizes, rectangles and windows, in pixels.
#pragma once

#include <algorithm>
#include <cstddef>

namespace stoker {

struct Size {
    int height = 0, width = 0;

    bool operator==(const Size&) const = default;
    std::size_t pixels() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
};

// A rectangle of an image of the batch.
struct Rectangle {
    int top, left, height, width;
};

// Columns [left, right) and rows [top, bottom) of a source image, at the size at which it is decoded.
struct Window {
    int left, top, right, bottom;

    bool empty() const { return left == right || top == bottom; }
};

// Returns the smallest window that holds both. An empty window holds nothing.
inline Window united(const Window& a, const Window& b) {
    if (a.empty()) return b.empty() ? Window{} : b;
    if (b.empty()) return a;
    return {std::min(a.left, b.left), std::min(a.top, b.top), std::max(a.right, b.right), std::max(a.bottom, b.bottom)};
}

// Returns the pixel that an axis of `size` pixels shows at `at` if it is continued by reflection about its first and last
// pixel.
inline int reflect(int at, int size) {
    if (size == 1) return 0;
    const int period = 2 * (size - 1);
    const int within = (at % period + period) % period;
    return std::min(within, period - within);
}

}  // namespace stoker
