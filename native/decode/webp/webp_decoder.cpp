#include "decode/webp/webp_decoder.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "decode/codecs.h"
#include "pixels/grey.h"

namespace stoker {
namespace {

// Colours at the edge of a window depend on so many pixels around it: colours have half the size, and libwebp interpolates
// the two nearest of each row and column. It also moves an odd corner of a crop to an even one.
constexpr int kMargin = 2;

int even(int value) { return value & ~1; }

// The crop of an image (without its offset on the canvas) whose pixels in `part` do not depend on the crop.
Window with_margin(const Window& part, int width, int height) {
    return {even(std::max(0, part.left - kMargin)), even(std::max(0, part.top - kMargin)),
            std::min(width, part.right + kMargin), std::min(height, part.bottom + kMargin)};
}

}  // namespace

CheckResult WebpDecoder::check(const EncodedImage& image) {
    webp::WebpFile file;
    const Outcome read = file.read(image.payload);
    if (!read.ok()) return {read.status, read.message};
    return check_oriented_size(file.header(), image);
}

bool WebpDecoder::open(const EncodedImage& image) {
    grey_ = image.grey;
    failure_ = file_.read(image.payload);
    return failure_.ok();
}

bool WebpDecoder::decode(const Window& window, int channels) {
    window_ = window;
    channels_ = static_cast<std::size_t>(channels);
    next_row_ = window.top;
    const WebPIterator& frame = file_.frame();
    const int x = frame.x_offset, y = frame.y_offset;
    // The part of the window that the image covers, in pixels of the image.
    const Window part{std::max(window.left - x, 0), std::max(window.top - y, 0),
                      std::min(window.right - x, frame.width), std::min(window.bottom - y, frame.height)};
    const bool is_covered = part.right - part.left == window.right - window.left && part.bottom - part.top == window.bottom - window.top;
    if (is_covered) return decode_part(part);
    const bool is_free = part.left >= part.right || part.top >= part.bottom;
    if (!is_free && !decode_part(part)) return false;
    paste(is_free ? Window{} : part);
    return true;
}

// Decodes a part of the image, with a margin around it.
bool WebpDecoder::decode_part(const Window& part) {
    const WebPIterator& frame = file_.frame();
    Window crop = with_margin(part, frame.width, frame.height);
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) return fail(Status::not_decodable, "libwebp is of another version than its headers");
    // The chunks may give another size than the data of the image, to which libwebp applies the crop.
    if (WebPGetFeatures(frame.fragment.bytes, frame.fragment.size, &config.input) != VP8_STATUS_OK ||
        config.input.width != frame.width || config.input.height != frame.height)
        return fail(Status::not_decodable, "the header of the image is damaged");
    // A crop of a lossy image has the transparency of wrong rows in libwebp 1.2.4.
    constexpr int lossy = 1;
    if (channels_ == 4 && config.input.format == lossy) crop.top = 0;
    config.options.use_cropping = 1;
    config.options.crop_left = crop.left;
    config.options.crop_top = crop.top;
    config.options.crop_width = crop.right - crop.left;
    config.options.crop_height = crop.bottom - crop.top;
    stride_ = channels_ * static_cast<std::size_t>(config.options.crop_width);
    const std::size_t bytes = stride_ * static_cast<std::size_t>(config.options.crop_height);
    pixels_.resize(bytes + kRowSlack);
    config.output.colorspace = channels_ == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {pixels_.data(), static_cast<int>(stride_), bytes};
    const VP8StatusCode status = WebPDecode(frame.fragment.bytes, frame.fragment.size, &config);
    if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
    if (status != VP8_STATUS_OK) return fail(Status::not_decodable, "the compressed pixels are damaged or cut off");
    first_ = pixels_.data() + static_cast<std::size_t>(part.top - crop.top) * stride_ + channels_ * static_cast<std::size_t>(part.left - crop.left);
    return true;
}

// Copies the decoded part of the image into a window that is otherwise black or transparent.
void WebpDecoder::paste(const Window& part) {
    const std::size_t stride = channels_ * static_cast<std::size_t>(window_.right - window_.left);
    std::vector<std::uint8_t> canvas(stride * static_cast<std::size_t>(window_.bottom - window_.top) + kRowSlack, 0);
    const auto left = static_cast<std::size_t>(part.left + file_.frame().x_offset - window_.left);
    const int top = part.top + file_.frame().y_offset - window_.top;
    for (int y = 0; y < part.bottom - part.top; ++y)
        std::memcpy(canvas.data() + static_cast<std::size_t>(top + y) * stride + channels_ * left,
                    first_ + static_cast<std::size_t>(y) * stride_, channels_ * static_cast<std::size_t>(part.right - part.left));
    pixels_.swap(canvas);
    stride_ = stride;
    first_ = pixels_.data();
}

std::uint8_t* WebpDecoder::next_row() {
    std::uint8_t* row = first_;
    first_ += stride_;
    ++next_row_;
    return row;
}

int WebpDecoder::read(const std::uint8_t* rows[kMaxRows]) {
    const int count = std::min(kMaxRows, window_.bottom - next_row_);
    for (int i = 0; i < count; ++i) {
        std::uint8_t* row = next_row();
        if (grey_) to_grey(row, window_.right - window_.left, row);
        rows[i] = row;
    }
    return count;
}

}  // namespace stoker
