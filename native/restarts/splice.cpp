#include "restarts/splice.h"

#include <algorithm>

#include "decode/jpeg/kernels/jpeg_kernels.h"
#include "restarts/layout.h"

namespace stoker {
namespace {

constexpr std::uint8_t kRst0 = 0xD0, kEoi = 0xD9;

// Units [first, last) of MCUs or intervals.
struct Range {
    int first, last;

    int size() const { return last - first; }
};

// Returns the units of `size` pixels that cover pixels [begin, end) and a margin beside them.
Range covering(int begin, int end, int margin, int size, int count) {
    return {std::max(0, begin - margin) / size, std::min(count, (end + margin + size - 1) / size)};
}

class Splicer {
  public:
    Splicer(const Payload& jpeg, const Bands& bands, const RestartLayout& layout, const Rectangle& crop)
        : jpeg_(jpeg),
          bands_(bands),
          layout_(layout),
          rows_(covering(crop.top, crop.top + crop.height, layout.margin_y(), layout.mcu_height, layout.rows())),
          columns_(covering(crop.left, crop.left + crop.width, layout.margin_x(),
                            layout.mcu_width * layout.interval, layout.intervals_per_row())),
          band_rows_(bands.rows_per_band(layout.rows())) {}

    bool is_whole() const {
        return rows_.size() == layout_.rows() && columns_.size() == layout_.intervals_per_row();
    }
    std::size_t first_band() const { return static_cast<std::size_t>(rows_.first / band_rows_); }
    std::size_t last_band() const { return static_cast<std::size_t>((rows_.last - 1) / band_rows_) + 1; }

    // Returns false if the markers are not those of the layout.
    bool run(Spliced& result) const {
        result.whole = {layout_.height, layout_.width};
        result.bytes_looked_at =
            layout_.scan + bands_.start(last_band(), jpeg_.size) - bands_.start(first_band(), jpeg_.size);
        result.top = rows_.first * layout_.mcu_height;
        result.left = columns_.first * layout_.interval * layout_.mcu_width;
        std::vector<std::uint8_t>& out = result.jpeg;
        const std::uint8_t* at = jpeg_.data + bands_.start(first_band(), jpeg_.size);
        const std::uint8_t* const end = jpeg_.data + bands_.start(last_band(), jpeg_.size);
        out.reserve(layout_.scan + static_cast<std::size_t>(end - at) + 2);
        out.assign(jpeg_.data, jpeg_.data + layout_.scan);
        set_size(out, result);
        const int per_row = layout_.intervals_per_row();
        const int before = static_cast<int>(first_band()) * band_rows_ * per_row;
        int copied = 0;
        for (int interval = before; copied < rows_.size() * columns_.size(); ++interval) {
            const std::uint8_t* marker = jpeg::kernels().find_marker(at, end);
            // The marker after the last interval of a band is the last two bytes of the band.
            if (marker == end || (marker[1] != kRst0 + interval % 8 && marker[1] != kEoi)) return false;
            if (interval / per_row >= rows_.first && has_column(interval % per_row)) {
                out.insert(out.end(), at, marker);
                out.push_back(0xFF);
                out.push_back(static_cast<std::uint8_t>(kRst0 + copied++ % 8));
            }
            at = marker + 2;
        }
        out.back() = kEoi;
        return true;
    }

  private:
    bool has_column(int interval) const { return interval >= columns_.first && interval < columns_.last; }

    void set_size(std::vector<std::uint8_t>& out, const Spliced& result) const {
        const int height = std::min(layout_.height, rows_.last * layout_.mcu_height) - result.top;
        const int right = columns_.last * layout_.interval * layout_.mcu_width;
        const int width = std::min(layout_.width, right) - result.left;
        std::uint8_t* size = out.data() + layout_.size_at;
        size[0] = static_cast<std::uint8_t>(height >> 8);
        size[1] = static_cast<std::uint8_t>(height);
        size[2] = static_cast<std::uint8_t>(width >> 8);
        size[3] = static_cast<std::uint8_t>(width);
    }

    const Payload& jpeg_;
    const Bands& bands_;
    const RestartLayout& layout_;
    Range rows_, columns_;
    int band_rows_;
};

}  // namespace

std::optional<Spliced> splice(const Payload& jpeg, const Bands& bands, const Rectangle& crop, bool verify,
                              CheckResult& check) {
    check = {};
    if (!bands.fit(jpeg.size)) return {};
    const CheckResult mismatch{Status::checksum_mismatch, kChecksumDiffers};
    if (verify && !bands.headers_match(jpeg)) {
        check = mismatch;
        return {};
    }
    const std::optional<RestartLayout> layout = read_layout({jpeg.data, bands.start(0, jpeg.size)});
    if (!layout || bands.count() > static_cast<std::size_t>(layout->rows())) return {};
    const bool inside = crop.top >= 0 && crop.left >= 0 && crop.height > 0 && crop.width > 0 &&
                        crop.height <= layout->height - crop.top && crop.width <= layout->width - crop.left;
    if (!inside) return {};
    const Splicer splicer(jpeg, bands, *layout, crop);
    if (splicer.is_whole()) return {};
    if (verify && !bands.match(jpeg, splicer.first_band(), splicer.last_band())) {
        check = mismatch;
        return {};
    }
    Spliced result;
    if (!splicer.run(result)) return {};
    return result;
}

}  // namespace stoker
