// Displacement fields as a function of a key; see stoker.augment.noise.
#pragma once

#include <cstdint>

#include "pixels/rectangle.h"

namespace stoker {

// The largest standard deviation of the Gaussian, pixels.
constexpr double kMaxDisplacementSigma = 1000;

// Writes the field of an image: height * width displacements along y, then as many along x. `alpha` and `sigma` are
// those along x and y; `sigma` is within 0 to kMaxDisplacementSigma.
void make_displacement(std::uint64_t key, Size size, const double* alpha, const double* sigma, double* field);

}  // namespace stoker
