// WebPs with the channels that they are stored with, or with alpha.
#pragma once

#include "decode/stored_pixels.h"

namespace stoker {

// See DecodeStored. An image with alpha has four channels, others have three.
CheckResult decode_stored_webp(const Payload& payload, const StoredRequest& request, StoredPixels& found);

}  // namespace stoker
