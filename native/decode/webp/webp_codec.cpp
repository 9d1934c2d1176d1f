// WebP: its number, signature, header and decoder.
#include <stdexcept>
#include <string>

#include <webp/decode.h>

#include "decode/codecs.h"
#include "decode/webp/webp_decoder.h"
#include "decode/webp/stored_webp.h"

namespace stoker {
namespace {

Header read_header(HeaderBytes bytes) {
    webp::WebpFile file;
    const Outcome read = file.read({bytes.data, bytes.size});
    if (read.status != Status::ok) throw std::invalid_argument(read.message);
    return file.header();
}

// The version of the library that runs, which may be shared.
std::string library() {
    const int version = WebPGetDecoderVersion();
    return "libwebp " + std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255) + "." +
           std::to_string(version & 255);
}

const RegisteredCodec registered({.codec = Codec{3},
                                  .name = "WebP",
                                  .library = library(),
                                  .signature = "RIFF....WEBP",
                                  .read_header = read_header,
                                  .decoding = decoding<WebpDecoder>(),
                                  .decode_stored = decode_stored_webp});

}  // namespace
}  // namespace stoker
