// The table of the codecs that are decoded here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decode/decoder.h"
#include "decode/header.h"

namespace stoker {

// One codec: its name, how to make its decoder, and how to check a payload without decoding it.
struct CodecEntry {
    Codec codec;
    const char* name;  // for messages
    std::unique_ptr<Decoder> (*make_decoder)();
    CheckResult (*check)(const EncodedImage& image);
};

std::span<const CodecEntry> codecs();

// The entry of a codec; null for one that is not decoded here.
const CodecEntry* find_codec(Codec codec);

// The names of all codecs here, separated by commas.
std::string codec_names();

// One decoder for each codec, for one thread.
class Decoders {
  public:
    Decoders();
    // The decoder of a codec; null for one that is not decoded here.
    Decoder* find(Codec codec) const;

  private:
    std::vector<std::unique_ptr<Decoder>> decoders_;  // in the order of codecs()
};

}  // namespace stoker
