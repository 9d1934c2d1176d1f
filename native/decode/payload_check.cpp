#include "decode/payload_check.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "decode/header.h"
#include "records/crc32c.h"

namespace stoker {
namespace {

std::string pixels(std::int64_t height, std::int64_t width) {
    return std::to_string(height) + "x" + std::to_string(width) + " pixels";
}

// Where the data of a JPEG begin: a thumbnail in a header segment before has an end marker of its own.
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

CheckResult check_jpeg(const Payload& payload, std::int64_t height, std::int64_t width, std::int64_t max_pixels) {
    Header header;
    try {
        header = probe(payload.data, payload.size);
    } catch (const std::invalid_argument& error) {
        return {Status::not_decodable, error.what()};
    }
    if (header.codec != Codec::jpeg) return {Status::not_decodable, "not a JPEG"};
    const bool turned = header.orientation >= 5;
    const CheckResult size = check_size(turned ? header.width : header.height, turned ? header.height : header.width, height,
                                    width, max_pixels);
    if (size.status != Status::ok) return size;
    // Decoders fill what is missing with grey and say nothing; a whole JPEG has its marker at the end.
    if (!has_end(payload)) return {Status::truncated, "the JPEG has no end"};
    return {};
}

}  // namespace

CheckResult check_size(std::int64_t height, std::int64_t width, std::int64_t indexed_height, std::int64_t indexed_width,
                   std::int64_t max_pixels) {
    if (std::max(height, width) > kMaxSourceSide)
        return {Status::not_decodable,
                pixels(height, width) + ", of at most " + std::to_string(kMaxSourceSide) + " a side"};
    if (height * width > max_pixels) return {Status::too_large, pixels(height, width)};
    if (height != indexed_height || width != indexed_width)
        return {Status::size_mismatch,
                pixels(height, width) + ", the index says " + pixels(indexed_height, indexed_width)};
    return {};
}

CheckResult check_raw(std::size_t bytes, std::int64_t height, std::int64_t width, std::int64_t max_pixels) {
    CheckResult size = check_size(height, width, height, width, max_pixels);
    if (size.status != Status::ok || bytes == static_cast<std::size_t>(3 * height * width)) return size;
    return {Status::size_mismatch, std::to_string(bytes) + " bytes for " + pixels(height, width)};
}

CheckResult check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                      const CheckOptions& options) {
    if (options.verify && crc32c(payload.data, payload.size) != samples.crc[i])
        return {Status::checksum_mismatch, "the payload does not match its CRC32C"};
    switch (static_cast<Codec>(samples.codec[i])) {
        case Codec::jpeg:
            return check_jpeg(payload, samples.height[i], samples.width[i], options.max_pixels);
        case Codec::raw:
            return check_raw(payload.size, samples.height[i], samples.width[i], options.max_pixels);
        default: return {};
    }
}

}  // namespace stoker
