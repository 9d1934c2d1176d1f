// Grey of RGB, by the weights of ITU-R BT.601 as Pillow and libjpeg round them.
#pragma once

#include <cstdint>

namespace stoker {

// Returns the luma of a pixel: Pillow's mode "L" (L24 in Convert.c), which is libjpeg's grey of RGB (jdcolor.c).
constexpr std::uint8_t luma(int red, int green, int blue) {
    return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

// Writes the luma of each pixel three times. Both rows may be the same.
inline void to_grey(const std::uint8_t* rgb, int pixels, std::uint8_t* grey) {
    for (int x = 0; x < pixels; ++x, rgb += 3, grey += 3)
        grey[0] = grey[1] = grey[2] = luma(rgb[0], rgb[1], rgb[2]);
}

}  // namespace stoker
