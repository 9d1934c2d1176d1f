// Sizes and rectangles, in pixels.
#pragma once

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

}  // namespace stoker
