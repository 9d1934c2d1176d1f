#include "masks/polygon_fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stoker {
namespace {

// The limit of coordinates, beyond which the arithmetic of edges may overflow.
constexpr double kMaxCoordinate = 1e100;

// Returns the first of `size` rows, or columns, whose centre lies at `position` or after it.
int first_from(double position, int size) {
    return static_cast<int>(std::clamp(std::ceil(position - 0.5), 0.0, static_cast<double>(size)));
}

}  // namespace

PolygonFill::PolygonFill(int height, int width)
    : height_(height),
      width_(width),
      words_(static_cast<std::size_t>(width) / 64 + 1),
      toggles_(static_cast<std::size_t>(height) * words_) {}

void PolygonFill::add(const Point* polygon, std::size_t count, const double* region, const double* matrix,
                      std::uint8_t* mask) {
    points_.assign(polygon, polygon + count);
    clip(region);
    if (points_.empty() || !map(matrix)) return;
    top_ = height_;
    bottom_ = 0;
    for (std::size_t i = 0; i + 1 < points_.size(); ++i) toggle(points_[i], points_[i + 1]);
    toggle(points_.back(), points_.front());
    fill_between(mask);
}

// Sutherland and Hodgman, "Reentrant polygon clipping", 1974.
void PolygonFill::clip(const double* region) {
    clip_side(false, 1, region[1]);
    clip_side(false, -1, region[3]);
    clip_side(true, 1, region[0]);
    clip_side(true, -1, region[2]);
}

void PolygonFill::clip_side(bool vertical, double sign, double bound) {
    const auto depth = [&](const Point& point) { return sign * ((vertical ? point.y : point.x) - bound); };
    if (std::all_of(points_.begin(), points_.end(), [&](const Point& point) { return depth(point) >= 0; })) return;
    kept_.clear();
    for (std::size_t i = 0; i < points_.size(); ++i) {
        const Point &point = points_[i], &next = points_[i + 1 < points_.size() ? i + 1 : 0];
        const double here = depth(point), there = depth(next);
        if (here >= 0) kept_.push_back(point);
        if ((here >= 0) == (there >= 0)) continue;
        const double share = here / (here - there);
        kept_.push_back({point.x + share * (next.x - point.x), point.y + share * (next.y - point.y)});
    }
    points_.swap(kept_);
}

bool PolygonFill::map(const double* m) {
    for (Point& point : points_) {
        // The operations have the order of stoker.augment.resampling.apply_matrix, so results are equal
        // to the bit.
        const double w = point.x * m[6] + point.y * m[7] + m[8];
        if (!(w > 0)) return false;
        point = {(point.x * m[0] + point.y * m[1] + m[2]) / w, (point.x * m[3] + point.y * m[4] + m[5]) / w};
        if (!(std::abs(point.x) < kMaxCoordinate && std::abs(point.y) < kMaxCoordinate)) return false;
    }
    return true;
}

void PolygonFill::toggle(const Point& from, const Point& to) {
    const int begin = first_from(from.y, height_), end = first_from(to.y, height_);
    const int low = std::min(begin, end), high = std::max(begin, end);
    if (low == high) return;
    top_ = std::min(top_, low);
    bottom_ = std::max(bottom_, high);
    const double slope = (to.x - from.x) / (to.y - from.y);
    for (int row = low; row < high; ++row) {
        const int column = first_from(from.x + (row + 0.5 - from.y) * slope, width_);
        toggles_[row * words_ + column / 64] ^= std::uint64_t{1} << column % 64;
    }
}

void PolygonFill::fill_between(std::uint8_t* mask) {
    for (int row = top_; row < bottom_; ++row) {
        std::uint8_t* pixels = mask + static_cast<std::size_t>(row) * static_cast<std::size_t>(width_);
        int start = -1;
        for (std::size_t word = 0; word < words_; ++word) {
            std::uint64_t& bits = toggles_[row * words_ + word];
            for (; bits != 0; bits &= bits - 1) {
                const int column = static_cast<int>(64 * word) + __builtin_ctzll(bits);
                if (start >= 0) std::memset(pixels + start, 1, static_cast<std::size_t>(column - start));
                start = start < 0 ? column : -1;
            }
        }
    }
}

}  // namespace stoker
