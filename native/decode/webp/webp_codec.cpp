// WebP: its number, signature, header and decoders.
#include <cstring>
#include <stdexcept>
#include <string>

#include <webp/decode.h>

#include "decode/codecs.h"
#include "decode/webp/webp_decoder.h"

namespace stoker {
namespace {

Header read_header(HeaderBytes bytes) {
    webp::WebpFile file;
    const Outcome read = file.read({bytes.data, bytes.size});
    if (!read.ok()) throw std::invalid_argument(read.message);
    return file.header();
}

// The version of the library that runs, which may be shared.
std::string library() {
    const int version = WebPGetDecoderVersion();
    return "libwebp " + std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255) + "." +
           std::to_string(version & 255);
}

// Decodes with the stored channels, or with alpha: an image with alpha has four channels, others have three.
CheckResult decode_stored(const Payload& payload, const StoredRequest& request, StoredPixels& pixels) {
    static thread_local WebpDecoder decoder;  // keeps its memory
    EncodedImage image;
    image.payload = payload;
    if (!decoder.open(image)) return {decoder.failure().status, decoder.failure().message};
    const int height = decoder.height(), width = decoder.width();
    if (CheckResult size = check_size(height, width, height, width, request.max_pixels); !size.ok()) return size;
    const Window window = within(request.window, height, width);
    pixels = {height, width, request.alpha || decoder.file().header().channels == 4 ? 4 : 3, 8, nullptr};
    pixels.allocate();
    if (window.empty()) return {};
    if (!decoder.decode(window, pixels.channels)) return {decoder.failure().status, decoder.failure().message};
    const std::size_t bytes = pixels.pixel_bytes() * static_cast<std::size_t>(window.right - window.left);
    for (int y = window.top; y < window.bottom; ++y) std::memcpy(pixels.at(y, window.left), decoder.next_row(), bytes);
    return {};
}

const RegisteredCodec registered({.codec = Codec{3},
                                  .name = "WebP",
                                  .library = library(),
                                  .signature = "RIFF....WEBP",
                                  .read_header = read_header,
                                  .decoding = decoding<WebpDecoder>(),
                                  .decode_stored = decode_stored});

}  // namespace
}  // namespace stoker
