#include "decode/header_bytes.h"

namespace stoker {

int tiff_orientation(HeaderBytes tiff) {
    const bool little = tiff.starts_with("II*\0", 4);
    if (!little && !tiff.starts_with("MM\0*", 4)) return 0;
    const auto read16 = [&](std::size_t at) { return little ? tiff.little16(at) : tiff.big16(at); };
    const auto read32 = [&](std::size_t at) { return little ? tiff.little32(at) : tiff.big32(at); };
    const std::size_t directory = read32(4);
    const std::size_t entries = read16(directory);
    for (std::size_t i = 0; i < entries; ++i) {
        const std::size_t entry = directory + 2 + 12 * i;
        if (entry + 12 > tiff.size) return 0;
        if (read16(entry) != 0x0112) continue;
        constexpr std::uint32_t type_short = 3;
        const std::uint32_t value = read16(entry + 2) == type_short ? read16(entry + 8) : read32(entry + 8);
        return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
    }
    return 0;
}

}  // namespace stoker
