#include "decode/png/png_channels.h"

#include <algorithm>
#include <cstring>

#include "decode/png/png_decoder.h"

namespace stoker {
namespace {

using png::ColorType;

// Converts one row of stored samples. A sample of 16 bits has its higher byte first.
class RowConverter {
  public:
    RowConverter(const png::PngFile& file, bool alpha) : file_(file), samples_(file.samples()) {
        const bool in_palette = file.color == ColorType::palette;
        keeps_bits = !alpha && file.color == ColorType::grey && file.bits == 16;
        // Pillow has no grey with alpha of 16 bits, and makes colours of it.
        const bool in_four = alpha || (file.color == ColorType::grey_alpha && file.bits == 16);
        channels = in_four ? 4 : in_palette ? 3 : samples_;
    }

    int channels = 0;
    bool keeps_bits = false;

    void run(const std::uint8_t* row, std::uint8_t* out) const {
        for (int x = 0; x < file_.width; ++x, out += keeps_bits ? 2 : channels) {
            if (keeps_bits) {
                const auto level = static_cast<std::uint16_t>(row[2 * x] << 8 | row[2 * x + 1]);
                std::memcpy(out, &level, 2);
            } else {
                pixel(row, x, out);
            }
        }
    }

  private:
    std::uint8_t level(const std::uint8_t* row, int at) const {
        if (file_.bits >= 8) return row[at * (file_.bits / 8)];
        const int bit = at * file_.bits;
        return static_cast<std::uint8_t>(row[bit / 8] >> (8 - file_.bits - bit % 8) & ((1 << file_.bits) - 1));
    }

    void pixel(const std::uint8_t* row, int x, std::uint8_t* out) const {
        if (file_.color == ColorType::palette) {
            std::memcpy(out, file_.palette.data() + 3 * level(row, x), 3);
            if (channels == 4) out[3] = 255;
            return;
        }
        const int scale = file_.bits < 8 ? 255 / ((1 << file_.bits) - 1) : 1;
        std::uint8_t stored[4] = {};
        for (int s = 0; s < samples_; ++s) stored[s] = static_cast<std::uint8_t>(level(row, x * samples_ + s) * scale);
        if (channels == samples_) {
            std::copy_n(stored, samples_, out);
            return;
        }
        const bool in_color = samples_ >= 3;
        for (int c = 0; c < 3; ++c) out[c] = stored[in_color ? c : 0];
        out[3] = samples_ == 2 ? stored[1] : 255;
    }

    const png::PngFile& file_;
    int samples_;
};

}  // namespace

CheckResult decode_png_channels(const Payload& payload, bool alpha, std::int64_t max_pixels, PngChannels& found) {
    PngDecoder decoder;
    EncodedImage image;
    image.payload = payload;
    if (!decoder.open(image)) return {decoder.failure().status, decoder.failure().message};
    const int height = decoder.height(), width = decoder.width();
    if (CheckResult size = check_size(height, width, height, width, max_pixels); size.status != Status::ok) return size;
    if (decoder.file().has_transparent_colors) return {};
    if (!decoder.start({0, 0, width, height}, 8)) return {decoder.failure().status, decoder.failure().message};
    const RowConverter converter(decoder.file(), alpha);
    const int bits = converter.keeps_bits ? 16 : 8;
    const std::size_t line = static_cast<std::size_t>(width) * static_cast<std::size_t>(converter.channels * bits / 8);
    found = {height, width, converter.channels, bits, std::vector<std::uint8_t>(line * static_cast<std::size_t>(height))};
    for (int y = 0; y < height; ++y) {
        const std::uint8_t* row = decoder.stored_row();
        if (row == nullptr) return {Status::not_decodable, "a row has an unknown filter"};
        converter.run(row, found.pixels.data() + static_cast<std::size_t>(y) * line);
    }
    return {};
}

}  // namespace stoker
