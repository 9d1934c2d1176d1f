#include "decode/codecs.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "decode/orientation.h"

namespace stoker {
namespace {

// Function-local, so that they exist before the first codec is registered.
std::vector<CodecEntry>& headers() {
    static std::vector<CodecEntry> entries;
    return entries;
}

std::vector<CodecEntry>& decoded() {
    static std::vector<CodecEntry> entries;
    return entries;
}

bool matches(HeaderBytes bytes, std::string_view signature) {
    for (std::size_t i = 0; i < signature.size(); ++i)
        if (i >= bytes.size || (signature[i] != '.' && bytes.data[i] != static_cast<std::uint8_t>(signature[i]))) return false;
    return true;
}

}  // namespace

RegisteredCodec::RegisteredCodec(const CodecEntry& entry) {
    if (entry.read_header != nullptr) headers().push_back(entry);
    if (entry.decoding.make_decoder != nullptr) decoded().push_back(entry);
}

const std::vector<CodecEntry>& decoded_codecs() { return decoded(); }

const CodecEntry* find_codec(Codec codec) {
    const auto entry =
        std::find_if(decoded().begin(), decoded().end(), [&](const CodecEntry& known) { return known.codec == codec; });
    return entry == decoded().end() ? nullptr : &*entry;
}

std::string codec_names() {
    std::string names;
    for (const CodecEntry& entry : decoded()) names += (names.empty() ? "" : ", ") + std::string(entry.name);
    return names;
}

Header probe(const std::uint8_t* data, std::size_t size) {
    const HeaderBytes bytes{data, size};
    for (const CodecEntry& entry : headers()) {
        if (!matches(bytes, entry.signature)) continue;
        Header header = entry.read_header(bytes);
        header.codec = entry.codec;
        return header;
    }
    return {};
}

CheckResult probe_as(const EncodedImage& image, Codec codec, Header& header) {
    try {
        header = probe(image.payload.data, image.payload.size);
    } catch (const std::invalid_argument& error) {
        return {Status::not_decodable, error.what()};
    }
    if (header.codec == codec) return {};
    return {Status::not_decodable, "not a " + std::string(find_codec(codec)->name)};
}

CheckResult check_oriented_size(const Header& header, const EncodedImage& image) {
    int height = header.height, width = header.width;
    if (Orientation::exif(header.orientation).transposed) std::swap(height, width);
    return check_size(height, width, image.height, image.width, image.max_pixels);
}

Decoders::Decoders() {
    for (const CodecEntry& entry : decoded()) decoders_.push_back(entry.decoding.make_decoder());
}

Decoder* Decoders::find(Codec codec) const {
    const CodecEntry* entry = find_codec(codec);
    return entry == nullptr ? nullptr : decoders_[static_cast<std::size_t>(entry - decoded().data())].get();
}

}  // namespace stoker
