#include "decode/jpeg/baseline/frame.h"

#include <algorithm>
#include <cstring>

namespace stoker::jpeg {
namespace {

constexpr int kMaxSide = 65500;  // JPEG_MAX_DIMENSION of libjpeg
constexpr std::uint32_t kMaxQuantum = 0x7FFF;

// The bytes of one marker segment, after its length. A read outside of them gives 0, and ended() is false afterwards.
class Segment {
  public:
    Segment(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

    std::uint32_t byte() {
        if (at_ == size_) {
            overrun_ = true;
            return 0;
        }
        return data_[at_++];
    }
    std::uint32_t word() {
        const std::uint32_t high = byte();
        return high << 8 | byte();
    }
    std::size_t left() const { return size_ - at_; }
    bool starts_with(const char* name, std::size_t length) const {
        return size_ >= length && std::memcmp(data_, name, length) == 0;
    }
    std::uint32_t peek(std::size_t at) const { return at < size_ ? data_[at] : 0; }
    // Whether all bytes and no more have been read.
    bool ended() const { return !overrun_ && at_ == size_; }

  private:
    const std::uint8_t* data_;
    std::size_t size_;
    std::size_t at_ = 0;
    bool overrun_ = false;
};

// Reads the segments one after the other.
class HeaderReader {
  public:
    explicit HeaderReader(Frame& frame) : frame_(frame) {}

    bool read(const Payload& payload) {
        std::size_t at = 2;
        while (!found_scan_) {
            if (payload.size < 4 || at > payload.size - 4 || payload.data[at] != 0xFF) return false;
            const std::uint8_t marker = payload.data[at + 1];
            if (marker == 0xFF) {  // fill byte
                ++at;
                continue;
            }
            const std::size_t length = static_cast<std::size_t>(payload.data[at + 2]) << 8 | payload.data[at + 3];
            if (length < 2 || length > payload.size - at - 2) return false;
            if (!take(marker, {payload.data + at + 4, length - 2})) return false;
            at += 2 + length;
        }
        frame_.scan = payload.data + at;
        frame_.end = payload.data + payload.size;
        return is_grey() || is_ycbcr();
    }

  private:
    bool take(std::uint8_t marker, Segment segment) {
        switch (marker) {
            case 0xC0:
            case 0xC1: return take_frame(segment);
            case 0xC4: return take_huffman(segment);
            case 0xDA: return take_scan(segment);
            case 0xDB: return take_quantisation(segment);
            case 0xDD: frame_.restart_interval = static_cast<int>(segment.word()); return segment.ended();
            case 0xE0: jfif_ |= segment.left() >= 14 && segment.starts_with("JFIF\0", 5); return true;
            case 0xEE: take_adobe(segment); return true;
            default: return marker == 0xFE || (marker > 0xE0 && marker <= 0xEF);
        }
    }

    void take_adobe(const Segment& segment) {
        if (segment.left() < 12 || !segment.starts_with("Adobe", 5)) return;
        adobe_ = true;
        transform_ = segment.peek(11);
    }

    bool take_frame(Segment& segment) {
        if (frame_.components != 0 || segment.byte() != 8) return false;
        frame_.height = static_cast<int>(segment.word());
        frame_.width = static_cast<int>(segment.word());
        const int components = static_cast<int>(segment.byte());
        if (components != 1 && components != kMaxComponents) return false;
        if (std::min(frame_.height, frame_.width) < 1 || std::max(frame_.height, frame_.width) > kMaxSide) return false;
        frame_.components = components;
        for (int i = 0; i < components; ++i) {
            Component& component = frame_.component[i];
            component.id = static_cast<int>(segment.byte());
            const std::uint32_t sampling = segment.byte();
            component.h = static_cast<int>(sampling >> 4);
            component.v = static_cast<int>(sampling & 15);
            component.quantisation = static_cast<int>(segment.byte());
            if (component.quantisation >= kMaxTables) return false;
        }
        return segment.ended();
    }

    bool take_quantisation(Segment& segment) {
        while (segment.left() > 0) {
            const std::uint32_t form = segment.byte(), table = form & 15, precision = form >> 4;
            if (table >= kMaxTables || precision > 1) return false;
            for (const std::uint8_t position : kZigzag) {
                const std::uint32_t quantum = precision == 0 ? segment.byte() : segment.word();
                if (quantum > kMaxQuantum) return false;
                frame_.quantisation[table][position] = static_cast<std::uint16_t>(quantum);
            }
            frame_.has_quantisation[table] = true;
        }
        return segment.ended();
    }

    bool take_huffman(Segment& segment) {
        while (segment.left() > 0) {
            const std::uint32_t form = segment.byte(), table = form & 15;
            if (table >= kMaxTables || form > 0x1F) return false;
            HuffmanSpec spec;
            std::size_t total = 0;
            for (int length = 1; length <= 16; ++length) {
                spec.counts[length] = static_cast<std::uint8_t>(segment.byte());
                total += spec.counts[length];
            }
            if (total > spec.symbols.size() || total > segment.left()) return false;
            for (std::size_t i = 0; i < total; ++i) spec.symbols[i] = static_cast<std::uint8_t>(segment.byte());
            spec.defined = true;
            (form >= 0x10 ? frame_.ac : frame_.dc)[table] = spec;
        }
        return segment.ended();
    }

    bool take_scan(Segment& segment) {
        const int components = static_cast<int>(segment.byte());
        if (components == 0 || components != frame_.components) return false;
        for (int i = 0; i < components; ++i) {
            Component& component = frame_.component[i];
            if (static_cast<int>(segment.byte()) != component.id) return false;
            const std::uint32_t tables = segment.byte();
            component.dc = static_cast<int>(tables >> 4);
            component.ac = static_cast<int>(tables & 15);
            if (std::max(component.dc, component.ac) >= kMaxTables) return false;
            if (!frame_.dc[component.dc].defined || !frame_.ac[component.ac].defined) return false;
            if (!frame_.has_quantisation[component.quantisation]) return false;
        }
        const bool sequential = segment.byte() == 0 && segment.byte() == 63 && segment.byte() == 0;
        found_scan_ = true;
        return sequential && segment.ended();
    }

    // Other sampling factors mean the same, but libjpeg would then read more rows of blocks at once.
    bool is_grey() const {
        return frame_.components == 1 && frame_.component[0].h == 1 && frame_.component[0].v == 1;
    }

    // The colour space as libjpeg guesses it, where this is certain.
    bool is_ycbcr() const {
        if (frame_.components != kMaxComponents) return false;
        const auto& [y, cb, cr] = frame_.component;
        if (y.h < 1 || y.h > 2 || y.v < 1 || y.v > 2) return false;
        if (cb.h != 1 || cb.v != 1 || cr.h != 1 || cr.v != 1) return false;
        if (y.id == cb.id || y.id == cr.id || cb.id == cr.id) return false;
        if (jfif_) return true;
        if (adobe_) return transform_ == 1;
        return y.id == 1 && cb.id == 2 && cr.id == 3;
    }

    Frame& frame_;
    bool jfif_ = false;
    bool adobe_ = false;
    std::uint32_t transform_ = 0;
    bool found_scan_ = false;
};

}  // namespace

bool has_end(const std::uint8_t* begin, const std::uint8_t* end) {
    for (; end - begin >= 2; --end)
        if (end[-2] == 0xFF && end[-1] == 0xD9) return true;
    return false;
}

bool read_frame(const Payload& payload, Frame& frame) {
    return read_frame_only(payload, frame) && has_end(frame.scan, frame.end);
}

bool read_frame_only(const Payload& payload, Frame& frame) {
    if (payload.size < 4 || payload.data[0] != 0xFF || payload.data[1] != 0xD8) return false;
    frame = Frame{};
    return HeaderReader(frame).read(payload);
}

}  // namespace stoker::jpeg
