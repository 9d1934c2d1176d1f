#include "decode/webp/stored_webp.h"

#include <cstring>

#include "decode/webp/webp_decoder.h"

namespace stoker {

CheckResult decode_stored_webp(const Payload& payload, const StoredRequest& request, StoredPixels& found) {
    static thread_local WebpDecoder decoder;  // keeps its memory
    EncodedImage image;
    image.payload = payload;
    if (!decoder.open(image)) return {decoder.failure().status, decoder.failure().message};
    const int height = decoder.height(), width = decoder.width();
    if (CheckResult size = check_size(height, width, height, width, request.max_pixels); size.status != Status::ok) return size;
    const Window window = within(request.window, height, width);
    found = {height, width, request.alpha || decoder.file().header().channels == 4 ? 4 : 3, 8, nullptr};
    found.allocate();
    if (window.empty()) return {};
    if (!decoder.decode(window, found.channels)) return {decoder.failure().status, decoder.failure().message};
    const std::size_t bytes = found.pixel_bytes() * static_cast<std::size_t>(window.right - window.left);
    for (int y = window.top; y < window.bottom; ++y) std::memcpy(found.at(y, window.left), decoder.next_row(), bytes);
    return {};
}

}  // namespace stoker
