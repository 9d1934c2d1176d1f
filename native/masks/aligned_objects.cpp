#include "masks/aligned_objects.h"

#include <algorithm>

namespace stoker {
namespace {

// One axis of the map from the source to the output.
struct AxisTransform {
    double scale, shift;

    double operator()(double position) const { return position * scale + shift; }
};

// `axis` is 0 for x and 1 for y. The fields of images have y first, except for `flip`.
AxisTransform axis_transform(const AlignedColumns& images, std::size_t i, int axis) {
    const double* region = images.region + 4 * i;
    const std::int32_t* dest = images.dest + 4 * i;
    const int field = 1 - axis;
    const double scale = dest[field + 2] / (region[field + 2] - region[field]);
    const double shift = dest[field] - region[field] * scale;
    if (!images.flip[2 * i + static_cast<std::size_t>(axis)]) return {scale, shift};
    return {-scale, (axis == 0 ? images.width : images.height) - shift};
}

double share(double part, double whole) { return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0.0; }

struct Extent {
    double low, high;

    double size() const { return high - low; }
    double center() const { return (low + high) / 2; }
};

}  // namespace

bool transform_box(const AlignedColumns& images, std::size_t owner, const float* box, const BoxRules& rules,
                   double* out) {
    const double* region = images.region + 4 * owner;
    double area = 1, cut_area = 1, moved_area = 1, visible_area = 1;
    bool is_large = true, is_inside = true;
    for (int axis = 0; axis < 2; ++axis) {
        const Extent whole{box[axis], box[axis + 2]};
        const double start = region[1 - axis], stop = region[3 - axis];
        Extent cut{std::min(std::max(whole.low, start), stop), 0};
        cut.high = std::max(std::min(whole.high, stop), cut.low);
        const AxisTransform move = axis_transform(images, owner, axis);
        const double first = move(cut.low), second = move(cut.high);
        const double low = std::min(first, second), high = std::max(first, second);
        const double size = axis == 0 ? images.width : images.height;
        const Extent shown_part{std::min(std::max(low, 0.0), size), std::min(std::max(high, 0.0), size)};
        area *= whole.size();
        cut_area *= cut.size();
        moved_area *= high - low;
        visible_area *= shown_part.size();
        is_large = is_large && shown_part.size() >= rules.min_size;
        out[axis] = shown_part.low;
        out[axis + 2] = shown_part.high;
        if (images.window == nullptr) continue;
        const double* window = images.window + 4 * owner;
        is_inside = is_inside && window[1 - axis] < whole.center() && whole.center() < window[3 - axis];
    }
    const double visible_share = share(visible_area, moved_area);
    if (visible_share == 0) std::fill_n(out, 4, 0.0);
    const double visible = images.shown[owner] ? share(cut_area, area) * visible_share : 0;
    return visible > 0 && visible >= rules.min_visible && is_large && is_inside;
}

void transform_keypoints(const AlignedColumns& images, std::size_t owner, const float* keypoints, std::size_t count,
                     const std::int64_t* swap, double* out) {
    const double* region = images.region + 4 * owner;
    const AxisTransform to_x = axis_transform(images, owner, 0), to_y = axis_transform(images, owner, 1);
    const bool exchanged = swap != nullptr && to_x.scale * to_y.scale < 0;
    for (std::size_t k = 0; k < count; ++k, out += 3) {
        const float* point = keypoints + 3 * (exchanged ? static_cast<std::size_t>(swap[k]) : k);
        const double x = point[0], y = point[1], moved_x = to_x(x), moved_y = to_y(y);
        const bool is_visible = point[2] > 0 && images.shown[owner] && x >= region[1] && x <= region[3] &&
                                y >= region[0] && y <= region[2] && moved_x >= 0 && moved_x <= images.width &&
                                moved_y >= 0 && moved_y <= images.height;
        out[0] = is_visible ? moved_x : 0;
        out[1] = is_visible ? moved_y : 0;
        out[2] = is_visible ? point[2] : 0;
    }
}

}  // namespace stoker
