#include "restarts/layout.h"

#include <algorithm>

#include "decode/jpeg/kernels/jpeg_kernels.h"

namespace stoker {
namespace {

constexpr unsigned kMaxIntervalsPerRow = 4;
constexpr std::uint8_t kSof0 = 0xC0, kSof1 = 0xC1, kRst0 = 0xD0, kEoi = 0xD9, kSos = 0xDA, kDri = 0xDD;

bool is_other_frame(std::uint8_t marker) {
    // C4, C8 and CC are not frames: they define tables and an extension.
    return marker > kSof1 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

int big16(const std::uint8_t* bytes) { return bytes[0] << 8 | bytes[1]; }

// A segment after its marker and its length.
struct Segment {
    const std::uint8_t* data;
    int size;
};

// Reads a frame header, and returns its number of components; 0 if it is damaged.
int read_frame(const Segment& frame, RestartLayout& layout) {
    if (frame.size < 6 || frame.size != 6 + 3 * frame.data[5]) return 0;
    const int components = frame.data[5];
    int h = 1, v = 1;
    for (int i = 0; i < components; ++i) {
        const std::uint8_t factors = frame.data[7 + 3 * i];
        h = std::max(h, factors >> 4);
        v = std::max(v, factors & 15);
    }
    layout.height = big16(frame.data + 1);
    layout.width = big16(frame.data + 3);
    if (layout.height == 0 || layout.width == 0) return 0;
    // The MCU of a scan of one component is a block, whatever its sampling factors are.
    layout.mcu_height = components == 1 ? 8 : 8 * v;
    layout.mcu_width = components == 1 ? 8 : 8 * h;
    return components;
}

}  // namespace

std::optional<RestartLayout> read_layout(const Payload& jpeg) {
    RestartLayout layout;
    int components = 0;
    std::size_t at = 2;
    while (at + 4 <= jpeg.size && jpeg.data[at] == 0xFF) {
        const std::uint8_t marker = jpeg.data[at + 1];
        const auto length = static_cast<std::size_t>(big16(jpeg.data + at + 2));
        if (marker < kSof0 || length < 2 || length + 2 > jpeg.size - at || is_other_frame(marker)) return {};
        const Segment segment{jpeg.data + at + 4, static_cast<int>(length) - 2};
        if (marker == kSof0 || marker == kSof1) {
            if (components != 0 || (components = read_frame(segment, layout)) == 0) return {};
            layout.size_at = at + 5;
        } else if (marker == kDri) {
            if (segment.size != 2) return {};
            layout.interval = big16(segment.data);
        }
        at += 2 + length;
        if (marker != kSos) continue;
        layout.scan = at;
        const bool whole = components != 0 && segment.size > 0 && segment.data[0] == components;
        if (!whole || layout.interval == 0 || layout.mcus_per_row() % layout.interval != 0) return {};
        return layout;
    }
    return {};
}

std::vector<std::size_t> interval_starts(const Payload& jpeg, const RestartLayout& layout) {
    const std::uint8_t* const end = jpeg.data + jpeg.size;
    const auto count = static_cast<std::size_t>(layout.rows()) * static_cast<std::size_t>(layout.intervals_per_row());
    std::vector<std::size_t> starts{layout.scan};
    for (;;) {
        const std::uint8_t* marker = jpeg::kernels().find_marker(jpeg.data + starts.back(), end);
        if (marker == end) return {};
        if (starts.size() == count) return marker[1] == kEoi ? starts : std::vector<std::size_t>{};
        if (marker[1] != kRst0 + (starts.size() - 1) % 8) return {};
        starts.push_back(static_cast<std::size_t>(marker + 2 - jpeg.data));
    }
}

unsigned restart_interval(unsigned mcus_per_row) {
    unsigned count = kMaxIntervalsPerRow;
    while (mcus_per_row % count != 0) --count;
    return mcus_per_row / count;
}

}  // namespace stoker
