// WebP: its number, signature, header and decoder.
#include <stdexcept>

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

const RegisteredCodec registered({.codec = Codec{3},
                                  .name = "WebP",
                                  .signature = "RIFF....WEBP",
                                  .read_header = read_header,
                                  .decoding = decoding<WebpDecoder>(),
                                  .decode_stored = decode_stored_webp});

}  // namespace
}  // namespace stoker
