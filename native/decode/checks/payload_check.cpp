#include "decode/checks/payload_check.h"

#include "decode/codecs.h"
#include "records/crc32c.h"

namespace stoker {

CheckResult read_payload(const DataFiles& files, const SampleColumns& samples, std::size_t i,
                         std::vector<std::uint8_t>& storage, Payload& payload) {
    const std::int64_t shard = samples.shard[i], offset = samples.offset[i], length = samples.length[i];
    if (shard < 0 || shard >= static_cast<std::int64_t>(files.size()))
        return {Status::read_error, "there is no shard number " + std::to_string(shard)};
    const DataFile& file = *files[static_cast<std::size_t>(shard)];
    if (!file.contains(offset, length)) return {Status::read_error, "the payload lies outside its shard"};
    payload = file.read(offset, length, storage);
    return {};
}

CheckResult check_crc(const Payload& payload, const SampleColumns& samples, std::size_t i) {
    if (!payload.has_checksum || samples.crc[i] == kNoChecksum) return {};
    if (crc32c(payload.data, payload.size) == samples.crc[i]) return {};
    return {Status::checksum_mismatch, kChecksumDiffers};
}

CheckResult check_payload(const Payload& payload, const SampleColumns& samples, std::size_t i,
                          const CheckOptions& options) {
    if (options.verify)
        if (CheckResult crc = check_crc(payload, samples, i); !crc.ok()) return crc;
    const CodecEntry* entry = find_codec(static_cast<Codec>(samples.codec[i]));
    if (entry == nullptr) return {};
    return entry->decoding.check({payload, samples.height[i], samples.width[i], options.max_pixels});
}

}  // namespace stoker
