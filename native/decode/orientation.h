// The EXIF orientation of a stored image (EXIF 2.32, tag 0x0112).
#pragma once

namespace stoker {

// The oriented pixel (y, x) is the stored pixel (y, x), or (x, y) if transposed. A flipped axis of the stored
// image is read backwards.
struct Orientation {
    bool transposed = false;
    bool flip_x = false;  // of the stored x axis
    bool flip_y = false;

    static constexpr Orientation exif(int value) {
        switch (value) {
            case 2: return {false, true, false};
            case 3: return {false, true, true};
            case 4: return {false, false, true};
            case 5: return {true, false, false};
            case 6: return {true, false, true};
            case 7: return {true, true, true};
            case 8: return {true, true, false};
            default: return {};
        }
    }
};

}  // namespace stoker
