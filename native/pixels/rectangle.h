// Sizes and rectangles, in pixels.
#pragma once

#include <algorithm>

namespace stoker {

struct Size {
    int height = 0, width = 0;

    bool operator==(const Size&) const = default;
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

}  // namespace stoker
