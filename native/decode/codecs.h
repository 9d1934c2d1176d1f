// The table of the codecs that C++ knows. The file of a codec adds its entry by a RegisteredCodec.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decode/decoder.h"
#include "decode/header.h"
#include "decode/header_bytes.h"
#include "decode/stored_pixels.h"

namespace stoker {

// How C++ decodes a codec: its decoder, and its check of a payload without decoding it.
struct Decoding {
    std::unique_ptr<Decoder> (*make_decoder)() = nullptr;
    CheckResult (*check)(const EncodedImage& image) = nullptr;
};

// Returns the decoding of a class derived from Decoder, which has a static `check` too.
template <class Kind>
constexpr Decoding decoding() {
    return {[]() -> std::unique_ptr<Decoder> { return std::make_unique<Kind>(); }, Kind::check};
}

// One codec. Raw pixels have no signature and no header. A codec that only Python decodes has no decoding.
struct CodecEntry {
    Codec codec;
    std::string_view name = {};       // for messages
    std::string library = {};         // name and version of the library that decodes it
    std::string_view signature = {};  // the first bytes of each payload; a dot is any byte
    // Reads a header that begins with the signature; throws std::invalid_argument for a damaged one. probe() sets
    // the codec.
    Header (*read_header)(HeaderBytes data) = nullptr;
    Decoding decoding = {};
    DecodeStored decode_stored = nullptr;  // null: Python decodes images with other channels than RGB and grey
};

// Adds an entry to the table when the module is loaded.
class RegisteredCodec {
  public:
    explicit RegisteredCodec(const CodecEntry& entry);
};

// Returns the codecs that C++ decodes.
const std::vector<CodecEntry>& decoded_codecs();

// Returns the entry of a codec, or null if C++ does not decode it.
const CodecEntry* find_codec(Codec codec);

// Returns the names of the codecs that C++ decodes, separated by commas, for error messages.
std::string codec_names();

// Reads the header of an image that should be of this codec. The result says whether it is.
CheckResult probe_as(const EncodedImage& image, Codec codec, Header& header);

// Compares the size of an image, after its EXIF orientation, with the index and the limit of pixels.
CheckResult check_oriented_size(const Header& header, const EncodedImage& image);

// The decoders of one thread, one for each codec.
class Decoders {
  public:
    Decoders();
    // Returns the decoder of a codec, or null if C++ does not decode it.
    Decoder* find(Codec codec) const;

  private:
    std::vector<std::unique_ptr<Decoder>> decoders_;  // in the order of decoded_codecs()
};

}  // namespace stoker
