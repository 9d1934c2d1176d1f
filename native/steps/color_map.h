// The part of a colour map that depends on the mean of an image.
#pragma once

namespace stoker {

// Adds `mean`, 3x3, times the mean RGB values of an image to the constant column of `color`, 3x4.
void add_mean(float* color, const float* mean, const double* rgb);

}  // namespace stoker
