#include "payload_check.h"

#include <cstring>
#include <stdexcept>

#include "crc32c.h"
#include "header.h"

namespace stoker {
namespace {

std::string pixels(std::int64_t height, std::int64_t width) {
    return std::to_string(height) + "x" + std::to_string(width);
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

Finding check_jpeg(const Payload& payload, std::int64_t height, std::int64_t width, std::int64_t max_pixels) {
    Header header;
    try {
        header = probe(payload.data, payload.size);
    } catch (const std::invalid_argument& error) {
        return {Status::not_decodable, error.what()};
    }
    if (header.codec != Codec::jpeg) return {Status::not_decodable, "not a JPEG"};
    const bool turned = header.orientation >= 5;
    const std::int64_t found_height = turned ? header.width : header.height;
    const std::int64_t found_width = turned ? header.height : header.width;
    if (found_height * found_width > max_pixels)
        return {Status::too_large, pixels(found_height, found_width) + " pixels"};
    if (found_height != height || found_width != width)
        return {Status::size_mismatch,
                pixels(found_height, found_width) + " pixels, the index says " + pixels(height, width)};
    // Decoders fill what is missing with grey and say nothing; a whole JPEG has its marker at the end.
    if (!has_end(payload)) return {Status::truncated, "the JPEG has no end"};
    return {};
}

Finding check_raw(const Payload& payload, std::int64_t height, std::int64_t width, std::int64_t max_pixels) {
    if (height * width > max_pixels) return {Status::too_large, pixels(height, width) + " pixels"};
    if (static_cast<std::int64_t>(payload.size) != height * width * 3)
        return {Status::size_mismatch,
                std::to_string(payload.size) + " bytes for " + pixels(height, width) + " RGB pixels"};
    return {};
}

}  // namespace

Finding check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                      const CheckOptions& options) {
    if (options.verify && crc32c(payload.data, payload.size) != samples.crc[i])
        return {Status::checksum_mismatch, "the payload does not match its CRC32C"};
    switch (static_cast<Codec>(samples.codec[i])) {
        case Codec::jpeg:
            return check_jpeg(payload, samples.height[i], samples.width[i], options.max_pixels);
        case Codec::raw:
            return check_raw(payload, samples.height[i], samples.width[i], options.max_pixels);
        default: return {};
    }
}

}  // namespace stoker
