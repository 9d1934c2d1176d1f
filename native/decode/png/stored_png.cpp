#include "decode/png/png_decoder.h"

#include <array>
#include <cstring>

namespace stoker {
namespace {

using png::ColorType;
using Row = const std::uint8_t*;

// Loops over pixels of `samples` samples of `bytes` bytes each. A sample of 16 bits has its higher byte first.
template <std::size_t bytes, std::size_t samples>
void take_higher(Row row, std::size_t pixels, std::uint8_t* out) {
    for (std::size_t i = 0; i < pixels * samples; ++i) out[i] = row[bytes * i];
}

template <std::size_t bytes, std::size_t samples>
void to_rgba(Row row, std::size_t pixels, std::uint8_t* out) {
    constexpr std::size_t green = samples >= 3 ? bytes : 0, blue = 2 * green;
    for (std::size_t x = 0; x < pixels; ++x, row += bytes * samples, out += 4) {
        out[0] = row[0];
        out[1] = row[green];
        out[2] = row[blue];
        out[3] = samples % 2 == 0 ? row[bytes * (samples - 1)] : 255;
    }
}

void swap_bytes(Row row, std::size_t pixels, std::uint8_t* out) {
    for (std::size_t i = 0; i < pixels; ++i) {
        const auto level = static_cast<std::uint16_t>(row[2 * i] << 8 | row[2 * i + 1]);
        std::memcpy(out + 2 * i, &level, 2);
    }
}

// Converts rows of stored samples.
class RowConverter {
  public:
    RowConverter(const png::PngFile& file, bool alpha) : file_(file) {
        keeps_bits = !alpha && file.color == ColorType::grey && file.bits == 16;
        // Pillow has no grey with alpha of 16 bits, and converts it to colours.
        const bool in_four = alpha || (file.color == ColorType::grey_alpha && file.bits == 16);
        channels = in_four ? 4 : file.color == ColorType::palette ? 3 : file.samples();
        if (file.color == ColorType::palette || file.bits < 8)
            list_levels();
        else
            convert_ = keeps_bits ? swap_bytes : file.bits == 8 ? choose<1>(in_four) : choose<2>(in_four);
    }

    int channels = 0;
    bool keeps_bits = false;

    void run(Row row, int left, int pixels, std::uint8_t* out) const {
        if (convert_ != nullptr)
            return convert_(row + file_.row_bytes(left), static_cast<std::size_t>(pixels), out);
        const auto bytes = static_cast<std::size_t>(channels);
        for (int x = left; x < left + pixels; ++x, out += bytes)
            std::memcpy(out, listed_.data() + 4 * png::small_sample(row, x, file_.bits), bytes);
    }

  private:
    using Convert = void (*)(Row row, std::size_t pixels, std::uint8_t* out);

    template <std::size_t bytes>
    Convert choose(bool in_four) const {
        switch (file_.samples()) {
            case 1: return in_four ? to_rgba<bytes, 1> : take_higher<bytes, 1>;
            case 2: return in_four ? to_rgba<bytes, 2> : take_higher<bytes, 2>;
            case 3: return in_four ? to_rgba<bytes, 3> : take_higher<bytes, 3>;
            default: return take_higher<bytes, 4>;
        }
    }

    // Fills the table of pixels by level, for palettes and for grey of fewer than 8 bits.
    void list_levels() {
        const bool in_palette = file_.color == ColorType::palette;
        for (std::size_t level = 0; level < 1U << file_.bits; ++level) {
            std::uint8_t* pixel = listed_.data() + 4 * level;
            const std::size_t most = (1U << file_.bits) - 1;
            for (std::size_t c = 0; c < 3; ++c)
                pixel[c] = in_palette ? file_.palette[3 * level + c] : static_cast<std::uint8_t>(255 * level / most);
            pixel[3] = 255;
        }
    }

    const png::PngFile& file_;
    Convert convert_ = nullptr;  // null: through `listed_`
    std::array<std::uint8_t, 4 * 256> listed_{};
};

}  // namespace

CheckResult decode_stored_png(const Payload& payload, const StoredRequest& request, StoredPixels& pixels) {
    static thread_local PngDecoder decoder;  // keeps its memory
    EncodedImage image;
    image.payload = payload;
    if (!decoder.open(image)) return {decoder.failure().status, decoder.failure().message};
    const int height = decoder.height(), width = decoder.width();
    if (CheckResult size = check_size(height, width, height, width, request.max_pixels); !size.ok()) return size;
    if (decoder.file().has_transparent_colors) return {};
    const Window window = within(request.window, height, width);
    if (!decoder.start(window, 8)) return {decoder.failure().status, decoder.failure().message};
    const RowConverter converter(decoder.file(), request.alpha);
    pixels = {height, width, converter.channels, converter.keeps_bits ? 16 : 8, nullptr};
    pixels.allocate();
    for (int y = window.top; y < window.bottom; ++y)
        converter.run(decoder.next_row(), window.left, window.right - window.left, pixels.at(y, window.left));
    return {};
}

}  // namespace stoker
