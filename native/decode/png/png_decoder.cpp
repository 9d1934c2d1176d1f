#include "decode/png/png_decoder.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "decode/codecs.h"
#include "pixels/grey.h"

namespace stoker {
namespace {

using png::ColorType;
using png::small_sample;

// The pixels of each of the seven images of Adam7 (PNG 3, 8.1).
struct Pass {
    int x, y, step_x, step_y;
};
constexpr Pass kPasses[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

constexpr std::size_t kZlibHeader = 2, kZlibChecksum = 4;  // bytes (RFC 1950)

int passed(int size, int first, int step) { return size <= first ? 0 : (size - first + step - 1) / step; }

void set_small_sample(std::uint8_t* row, int i, int bits, int value) {
    const int at = i * bits;
    row[at / 8] = static_cast<std::uint8_t>(row[at / 8] | value << (8 - bits - at % 8));
}

// Copies pixels to every `step`-th pixel of a row, from `first` on.
void spread(const std::uint8_t* pixels, int count, std::size_t bits, std::uint8_t* row, int first, int step) {
    for (int i = 0; i < count; ++i) {
        const int x = first + i * step;
        if (bits < 8)
            set_small_sample(row, x, static_cast<int>(bits), small_sample(pixels, i, static_cast<int>(bits)));
        else
            std::memcpy(row + static_cast<std::size_t>(x) * (bits / 8), pixels + static_cast<std::size_t>(i) * (bits / 8), bits / 8);
    }
}

}  // namespace

CheckResult PngDecoder::check(const EncodedImage& image) {
    Header header;
    if (CheckResult header_check = probe_as(image, Codec{2}, header); !header_check.ok()) return header_check;
    png::PngFile file;
    const Outcome read = file.read(image.payload);
    if (!read.ok()) return {read.status, read.message};
    return check_oriented_size(header, image);
}

PngDecoder::PngDecoder() : decompressor_(libdeflate_alloc_decompressor(), libdeflate_free_decompressor) {
    if (decompressor_ == nullptr) throw std::bad_alloc();
}

bool PngDecoder::open(const EncodedImage& image) {
    failure_ = {};
    grey_ = image.grey;
    constexpr char signature[] = "\x89PNG\r\n\x1A\n";
    if (image.payload.size < 8 || std::memcmp(image.payload.data, signature, 8) != 0)
        return fail(Status::not_decodable, "not a PNG");
    failure_ = file_.read(image.payload);
    return failure_.ok();
}

bool PngDecoder::start(const Window& window, int) {
    window_ = window;
    next_row_ = window.top;
    std::size_t bytes = 0;
    if (!file_.interlaced) bytes = static_cast<std::size_t>(file_.height) * (file_.row_bytes(file_.width) + 1);
    for (const Pass& pass : kPasses) {
        const int columns = passed(file_.width, pass.x, pass.step_x), rows = passed(file_.height, pass.y, pass.step_y);
        if (file_.interlaced && columns > 0) bytes += static_cast<std::size_t>(rows) * (file_.row_bytes(columns) + 1);
    }
    rows_.resize(static_cast<std::size_t>(kMaxRows) * (3 * static_cast<std::size_t>(window.right - window.left) + kRowSlack));
    return inflate(bytes) && (file_.interlaced ? interlace() : undo_filters());
}

// Inflates the first `bytes` bytes of the stream. Some encoders write more than the image has.
bool PngDecoder::inflate(std::size_t bytes) {
    for (std::size_t room = bytes;; room = 2 * room + (1 << 16)) {
        filtered_.resize(room + kRowSlack);
        std::size_t written = 0, read = 0;
        auto result = libdeflate_zlib_decompress(decompressor_.get(), file_.stream, file_.stream_size,
                                                 filtered_.data(), room, &written);
        // Pillow also decodes a stream whose checksum is cut off.
        if (result == LIBDEFLATE_BAD_DATA && file_.stream_size > kZlibHeader) {
            result = libdeflate_deflate_decompress_ex(decompressor_.get(), file_.stream + kZlibHeader,
                                                      file_.stream_size - kZlibHeader, filtered_.data(), room, &read,
                                                      &written);
            if (file_.stream_size - kZlibHeader - read >= kZlibChecksum) result = LIBDEFLATE_BAD_DATA;
        }
        if (result == LIBDEFLATE_SUCCESS)
            return written >= bytes || fail(Status::truncated, "the data ends before the image does");
        if (result != LIBDEFLATE_INSUFFICIENT_SPACE || room > 8 * bytes + (1 << 20))
            return fail(Status::not_decodable, "the compressed pixels are damaged or cut off");
    }
}

// Undoes the filters of the window, and of the rows and columns that its pixels were predicted from.
bool PngDecoder::undo_filters() {
    png::FilteredRows rows{filtered_.data(), file_.row_bytes(file_.width) + 1, static_cast<std::size_t>(file_.height),
                           file_.row_bytes(window_.right), std::max<std::size_t>(1, file_.pixel_bits() / 8)};
    if (!rows.have_known_filters()) return fail(Status::not_decodable, "a row has an unknown filter");
    std::size_t first = static_cast<std::size_t>(window_.top);
    while (first > 0 && png::depends_on_row_above(*rows.row(first))) --first;
    rows.first = rows.row(first);
    rows.count = static_cast<std::size_t>(window_.bottom) - first;
    undo_filters_(rows, scratch_);
    return true;
}

// Puts the pixels of all passes into their rows and columns.
bool PngDecoder::interlace() {
    const std::size_t bits = file_.pixel_bits(), line = file_.row_bytes(file_.width), step = std::max<std::size_t>(1, bits / 8);
    whole_.assign(static_cast<std::size_t>(file_.height) * line, 0);
    std::uint8_t* stored = filtered_.data();
    for (const Pass& pass : kPasses) {
        const int columns = passed(file_.width, pass.x, pass.step_x), count = passed(file_.height, pass.y, pass.step_y);
        if (columns == 0) continue;
        const std::size_t bytes = file_.row_bytes(columns);
        const png::FilteredRows rows{stored, bytes + 1, static_cast<std::size_t>(count), bytes, step};
        if (!rows.have_known_filters()) return fail(Status::not_decodable, "a row has an unknown filter");
        undo_filters_(rows, scratch_);
        for (int y = pass.y; y < file_.height; y += pass.step_y, stored += bytes + 1)
            spread(stored + 1, columns, bits, whole_.data() + static_cast<std::size_t>(y) * line, pass.x, pass.step_x);
    }
    return true;
}

const std::uint8_t* PngDecoder::next_row() {
    const std::size_t line = file_.row_bytes(file_.width), y = static_cast<std::size_t>(next_row_++);
    return file_.interlaced ? whole_.data() + y * line : filtered_.data() + y * (line + 1) + 1;
}

int PngDecoder::read(const std::uint8_t* rows[kMaxRows]) {
    const std::size_t stride = rows_.size() / kMaxRows;
    const int pixels = window_.right - window_.left, count = std::min(kMaxRows, window_.bottom - next_row_);
    for (int i = 0; i < count; ++i) {
        std::uint8_t* rgb = rows_.data() + static_cast<std::size_t>(i) * stride;
        to_rgb(next_row(), rgb);
        if (grey_ && file_.color != ColorType::grey && file_.color != ColorType::grey_alpha) to_grey(rgb, pixels, rgb);
        rows[i] = rgb;
    }
    return count;
}

void PngDecoder::to_rgb(const std::uint8_t* row, std::uint8_t* rgb) const {
    const int left = window_.left, pixels = window_.right - window_.left;
    const std::size_t bytes = file_.pixel_bits() / 8;
    if (file_.color == ColorType::palette || bytes == 0) {
        const bool in_palette = file_.color == ColorType::palette;
        const int scale = in_palette ? 1 : 255 / ((1 << file_.bits) - 1);
        for (int i = 0; i < pixels; ++i, rgb += 3) {
            const int level = file_.bits == 8 ? row[left + i] : small_sample(row, left + i, file_.bits);
            if (in_palette)
                std::memcpy(rgb, file_.palette.data() + 3 * level, 3);
            else
                rgb[0] = rgb[1] = rgb[2] = static_cast<std::uint8_t>(level * scale);
        }
        return;
    }
    const bool in_color = file_.color == ColorType::rgb || file_.color == ColorType::rgba;
    row += static_cast<std::size_t>(left) * bytes;
    if (file_.color == ColorType::rgb && file_.bits == 8) {
        std::memcpy(rgb, row, 3 * static_cast<std::size_t>(pixels));
        return;
    }
    // The higher byte of a sample comes first.
    const std::size_t sample = static_cast<std::size_t>(file_.bits) / 8, next = in_color ? sample : 0;
    for (int i = 0; i < pixels; ++i, row += bytes, rgb += 3) {
        rgb[0] = row[0];
        rgb[1] = row[next];
        rgb[2] = row[2 * next];
    }
}

}  // namespace stoker
