// Warps and displacements of images of any number of channels. They make levels: (height, width, channels) floats, which
// ChannelResampler stores in the units of an output. Levels of 8 bits are rounded.
#pragma once

#include <cstdint>

#include "channels/channel_image.h"
#include "pixels/rectangle.h"
#include "warp/warp_map.h"

namespace stoker {

// Warps an image as stoker.augment.resampling.resample() does, with a level of `fill` for each channel outside of the
// map's window; or picks pixels, as pick() does there. The window must lie within the image.
void warp_channels(const ChannelImage& image, const WarpMap& map, Size size, bool picks, const float* fill, float* levels);

// The numbers of the step Displace (stoker.augment.steps), of one image.
struct Displacement {
    std::uint64_t key;
    const double* alpha;  // along x, along y
    const double* sigma;  // likewise, within 0 to kMaxDisplacementSigma
    bool nearest;
};

// Moves each pixel of `levels` by a displacement field. `rounds` says whether they are levels of 8 bits.
void displace_channels(float* levels, Size size, int channels, const Displacement& displacement, bool rounds,
                       const float* fill);

}  // namespace stoker
