// PNGs with the channels and bits that they are stored with, or with alpha.
#pragma once

#include "decode/stored_pixels.h"

namespace stoker {

// See DecodeStored. Grey of 16 bits keeps its bits; other images keep the higher 8. Pillow decodes PNGs with
// transparent colours (a tRNS chunk).
CheckResult decode_stored_png(const Payload& payload, const StoredRequest& request, StoredPixels& found);

}  // namespace stoker
