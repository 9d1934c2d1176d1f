#include "decode/codecs.h"

#include <algorithm>

#include "decode/jpeg_decoder.h"
#include "decode/raw_decoder.h"

namespace stoker {
namespace {

template <class Kind>
std::unique_ptr<Decoder> make() {
    return std::make_unique<Kind>();
}

constexpr CodecEntry kCodecs[] = {
    {.codec = Codec::jpeg, .name = "JPEG", .make_decoder = make<JpegDecoder>, .check = JpegDecoder::check},
    {.codec = Codec::raw, .name = "raw pixels", .make_decoder = make<RawDecoder>, .check = RawDecoder::check},
};

}  // namespace

std::span<const CodecEntry> codecs() { return kCodecs; }

const CodecEntry* find_codec(Codec codec) {
    const auto* entry = std::find_if(std::begin(kCodecs), std::end(kCodecs),
                                     [&](const CodecEntry& known) { return known.codec == codec; });
    return entry == std::end(kCodecs) ? nullptr : entry;
}

std::string codec_names() {
    std::string names;
    for (const CodecEntry& entry : kCodecs) names += (names.empty() ? "" : ", ") + std::string(entry.name);
    return names;
}

Decoders::Decoders() {
    for (const CodecEntry& entry : kCodecs) decoders_.push_back(entry.make_decoder());
}

Decoder* Decoders::find(Codec codec) const {
    const CodecEntry* entry = find_codec(codec);
    return entry == nullptr ? nullptr : decoders_[static_cast<std::size_t>(entry - kCodecs)].get();
}

}  // namespace stoker
