#include "decode/jpeg/turbo_decoder.h"

#include <jerror.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "decode/codecs.h"
#include "decode/jpeg/baseline/frame.h"
#include "pixels/grey.h"

// libjpeg reports an error by longjmp. Each method that calls it sets its own jump target and has only plain
// data on its stack, so that the jump skips no destructor.

namespace stoker {
namespace {

constexpr int kLines = 2;  // libjpeg returns at most one row group at a time
// An offset that keeps rows unaligned. libjpeg-turbo writes aligned rows past the caches (movntdq in
// jdcolext-*.asm), and reading them back from memory takes longer than resizing them.
constexpr std::size_t kMisalignment = 8;
// A limit for progressive images, which may have any number of scans; encoders write about ten.
constexpr int kMaxScans = 500;

TurboDecoder* self(j_common_ptr decoder) { return static_cast<TurboDecoder*>(decoder->client_data); }

void on_start(j_decompress_ptr) {}

// Pillow's conversion of CMYK (cmyk2rgb in Convert.c), with its rounding of the product of two bytes.
std::uint8_t subtract_ink(int ink, int light) {
    const int product = ink * light + 128;
    return static_cast<std::uint8_t>(std::max(0, light - ((product + (product >> 8)) >> 8)));
}

// Expands one channel to three equal ones, in place.
void repeat_channel(std::uint8_t* row, int pixels) {
    for (int x = pixels; x-- > 0;) row[3 * x] = row[3 * x + 1] = row[3 * x + 2] = row[x];
}

// Returns the position of the entropy-coded data. Segments before it may hold a thumbnail with its own end marker.
std::size_t scan_start(const Payload& jpeg) {
    for (std::size_t at = 2; at + 4 <= jpeg.size && jpeg.data[at] == 0xFF;) {
        const std::uint8_t marker = jpeg.data[at + 1];
        if (marker == 0xFF) {  // fill byte
            ++at;
            continue;
        }
        const std::size_t length = static_cast<std::size_t>(jpeg.data[at + 2]) << 8 | jpeg.data[at + 3];
        at += 2 + length;
        if (marker == 0xDA) return at;
    }
    return jpeg.size;
}

bool has_end(const Payload& jpeg) {
    constexpr std::uint8_t end[] = {0xFF, 0xD9};
    if (jpeg.size >= 2 && std::memcmp(jpeg.data + jpeg.size - 2, end, 2) == 0) return true;
    const std::size_t start = scan_start(jpeg);
    return start < jpeg.size && ::memmem(jpeg.data + start, jpeg.size - start, end, 2) != nullptr;
}

}  // namespace

CheckResult TurboDecoder::check(const EncodedImage& image) {
    Header header;
    if (CheckResult header_check = probe_as(image, Codec::jpeg, header); !header_check.ok()) return header_check;
    if (CheckResult size = check_oriented_size(header, image); !size.ok()) return size;
    // Other decoders fill the missing part of a truncated JPEG with grey and report no error.
    if (!has_end(image.payload)) return {Status::truncated, "the JPEG has no end"};
    return {};
}

TurboDecoder::TurboDecoder() {
    decoder_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    source_.init_source = on_start;
    source_.term_source = on_start;
    source_.fill_input_buffer = on_end;
    source_.skip_input_data = on_skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    progress_.progress_monitor = on_progress;
    decoder_.client_data = this;
}

TurboDecoder::~TurboDecoder() { jpeg_destroy_decompress(&decoder_); }

// Takes libjpeg's message as the reason.
void TurboDecoder::give_up(Status status) {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&decoder_), message_);
    give_up(status, message_);
}

void TurboDecoder::give_up(Status status, const char* reason) {
    failure_ = {status, reason};
    std::longjmp(jump_, 1);
}

void TurboDecoder::on_error(j_common_ptr decoder) { self(decoder)->give_up(Status::not_decodable); }

// Treats warnings after which libjpeg guesses pixels as errors, and ignores the others.
void TurboDecoder::on_message(j_common_ptr decoder, int level) {
    if (level >= 0) return;
    switch (decoder->err->msg_code) {
        case JWRN_HIT_MARKER: self(decoder)->give_up(Status::truncated);
        case JWRN_HUFF_BAD_CODE:
        case JWRN_ARITH_BAD_CODE:
        case JWRN_BOGUS_PROGRESSION:
        case JWRN_MUST_RESYNC: self(decoder)->give_up(Status::not_decodable);
        default: break;
    }
}

void TurboDecoder::on_progress(j_common_ptr decoder) {
    TurboDecoder& me = *self(decoder);
    if (me.decoder_.input_scan_number > kMaxScans) me.give_up(Status::not_decodable, "more than 500 scans");
}

// libjpeg asks for more bytes. The whole payload is in memory from the start, so the image is truncated.
boolean TurboDecoder::on_end(j_decompress_ptr decoder) {
    self(reinterpret_cast<j_common_ptr>(decoder))->give_up(Status::truncated, "the data ends before the image does");
}

void TurboDecoder::on_skip(j_decompress_ptr decoder, long count) {
    if (count <= 0) return;
    if (static_cast<std::size_t>(count) > decoder->src->bytes_in_buffer) on_end(decoder);
    decoder->src->next_input_byte += count;
    decoder->src->bytes_in_buffer -= static_cast<std::size_t>(count);
}

bool TurboDecoder::open(const EncodedImage& image) {
    failure_ = {};
    grey_ = image.grey;
    if (setjmp(jump_)) return false;
    // Each image gets a new decompressor: libjpeg keeps tables, and an image without tables would use the old ones.
    jpeg_destroy_decompress(&decoder_);
    jpeg_create_decompress(&decoder_);
    decoder_.src = &source_;
    decoder_.progress = &progress_;
    source_.next_input_byte = image.payload.data;
    source_.bytes_in_buffer = image.payload.size;
    jpeg_read_header(&decoder_, TRUE);
    // A decoder of a window might not reach the position at which bytes are missing.
    const JOCTET* rest = source_.next_input_byte;
    if (!jpeg::has_end(rest, rest + source_.bytes_in_buffer)) on_end(&decoder_);
    return true;
}

bool TurboDecoder::start(const Window& window, int eighths) {
    if (setjmp(jump_)) return false;
    const bool cmyk = decoder_.num_components == 4;
    decoder_.out_color_space = cmyk ? JCS_CMYK : grey_ ? JCS_GRAYSCALE : JCS_RGB;
    decoder_.scale_num = static_cast<unsigned>(eighths);
    decoder_.scale_denom = 8;
    jpeg_start_decompress(&decoder_);
    window_ = window;
    // Upsampling reads neighbouring pixels, so two more columns are decoded at each side.
    JDIMENSION left = static_cast<JDIMENSION>(std::max(0, window.left - 2));
    const JDIMENSION right = std::min(decoder_.output_width, static_cast<JDIMENSION>(window.right) + 2);
    JDIMENSION columns = right - left;
    if (columns < decoder_.output_width && can_crop())
        jpeg_crop_scanline(&decoder_, &left, &columns);
    else
        left = 0;
    origin_ = static_cast<int>(left);
    pixels_ = static_cast<int>(decoder_.output_width);
    row_bytes_ = (static_cast<std::size_t>(pixels_) * (cmyk ? 4 : 3) + kRowSlack + 15) / 16 * 16;
    if (!set_columns()) return false;
    if (window.top > 0) jpeg_skip_scanlines(&decoder_, static_cast<JDIMENSION>(window.top));
    return true;
}

// With a sampling factor of 3 or 4, libjpeg-turbo (2.1.5, 3.1) upsamples the ends of cropped rows wrongly: it
// computes a wrong row width for a component that it reduces less than the others.
bool TurboDecoder::can_crop() const {
    return std::max(decoder_.max_h_samp_factor, decoder_.max_v_samp_factor) <= 2;
}

bool TurboDecoder::set_columns() {
    const std::size_t bytes = kMisalignment + kLines * row_bytes_;
    if (rows_.size() >= bytes) return true;
    try {
        rows_.resize(bytes);
    } catch (const std::exception&) {
        return fail(Status::not_decodable, "no memory for a row of pixels");
    }
    return true;
}

int TurboDecoder::read(const std::uint8_t* rows[kMaxRows]) {
    if (setjmp(jump_)) return 0;
    JSAMPROW scanlines[kLines] = {rows_.data() + kMisalignment, rows_.data() + kMisalignment + row_bytes_};
    const int left = window_.bottom - static_cast<int>(decoder_.output_scanline);
    const int count =
        static_cast<int>(jpeg_read_scanlines(&decoder_, scanlines, static_cast<JDIMENSION>(std::min(left, kLines))));
    for (int i = 0; i < count; ++i) {
        if (decoder_.out_color_space == JCS_CMYK) to_rgb(scanlines[i]);
        if (decoder_.out_color_space == JCS_GRAYSCALE)
            repeat_channel(scanlines[i], pixels_);
        else if (grey_)
            to_grey(scanlines[i], pixels_, scanlines[i]);
        rows[i] = scanlines[i] + 3 * (window_.left - origin_);
    }
    return count;
}

// Converts a row from CMYK to RGB, in place. Adobe stores inverted values.
void TurboDecoder::to_rgb(std::uint8_t* row) const {
    const int invert = decoder_.saw_Adobe_marker ? 255 : 0;
    for (int x = 0; x < pixels_; ++x) {
        const std::uint8_t* cmyk = row + 4 * x;
        const int ink[3] = {cmyk[0] ^ invert, cmyk[1] ^ invert, cmyk[2] ^ invert};
        const int light = 255 - (cmyk[3] ^ invert);
        for (int c = 0; c < 3; ++c) row[3 * x + c] = subtract_ink(ink[c], light);
    }
}

void TurboDecoder::finish() {
    if (setjmp(jump_)) return;
    jpeg_abort_decompress(&decoder_);
}

}  // namespace stoker
