#include "decode/payload_check.h"

#include "decode/codecs.h"
#include "records/crc32c.h"

namespace stoker {

CheckResult check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                          const CheckOptions& options) {
    if (options.verify && crc32c(payload.data, payload.size) != samples.crc[i])
        return {Status::checksum_mismatch, "the payload does not match its CRC32C"};
    const CodecEntry* entry = find_codec(static_cast<Codec>(samples.codec[i]));
    if (entry == nullptr) return {};
    return entry->check({payload, samples.height[i], samples.width[i], options.max_pixels});
}

}  // namespace stoker
