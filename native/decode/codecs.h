// The table of the codecs that C++ decodes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decode/decoder.h"
#include "decode/header.h"

namespace stoker {

// One codec: its name, the maker of its decoder, and the check of a payload without decoding it.
struct CodecEntry {
    Codec codec;
    const char* name;  // for messages
    std::unique_ptr<Decoder> (*make_decoder)();
    CheckResult (*check)(const EncodedImage& image);
};

std::span<const CodecEntry> codecs();

// Returns the entry of a codec, or null if C++ does not decode it.
const CodecEntry* find_codec(Codec codec);

// Returns the names of all codecs in the table, separated by commas, for error messages.
std::string codec_names();

// The decoders of one thread, one for each codec.
class Decoders {
  public:
    Decoders();
    // Returns the decoder of a codec, or null if C++ does not decode it.
    Decoder* find(Codec codec) const;

  private:
    std::vector<std::unique_ptr<Decoder>> decoders_;  // in the order of codecs()
};

}  // namespace stoker
