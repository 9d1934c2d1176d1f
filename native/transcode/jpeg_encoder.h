// The encoder of baseline JPEG, on libjpeg-turbo.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

enum class Subsampling { s444, s422, s420 };

struct JpegOptions {
    int quality = 90;
    Subsampling subsampling = Subsampling::s420;
    bool restarts = false;  // with restart markers, see restart_interval()
};

// Encodes RGB pixels as JFIF, in YCbCr. Throws std::runtime_error with libjpeg's reason.
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* rgb, int height, int width, const JpegOptions& options);

}  // namespace stoker
