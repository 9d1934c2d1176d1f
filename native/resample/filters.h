// The filters of resizes, as functions of the distance from the centre of an output.
#pragma once

#include <algorithm>
#include <cmath>

namespace stoker {

template <class T>
T triangle(T x) {
    return std::max(T{0}, 1 - std::abs(x));
}

// Keys' cubic convolution with a = -0.5.
template <class T>
T cubic(T x) {
    const T d = std::abs(x);
    if (d < 1) return (T(1.5) * d - T(2.5)) * d * d + 1;
    return d < 2 ? ((T(2.5) - T(0.5) * d) * d - 4) * d + 2 : 0;
}

template <class T>
T sinc(T x) {
    const T angle = T(3.14159265358979323846) * x;
    return x == 0 ? 1 : std::sin(angle) / angle;
}

template <class T>
T lanczos(T x) {
    return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

// Keys' cubic convolution with a = -0.75, which torch interpolates with where it does not antialias.
inline double plain_cubic(double x) {
    const double d = std::abs(x);
    if (d < 1) return (1.25 * d - 2.25) * d * d + 1;
    return d < 2 ? ((3.75 - 0.75 * d) * d - 6) * d + 3 : 0;
}

}  // namespace stoker
