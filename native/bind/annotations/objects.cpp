#include <memory>

#include "bind/bind.h"
#include "masks/aligned_objects.h"

namespace stoker {
namespace {

using Owner = Vector<std::int64_t>;

AlignedColumns columns(std::pair<int, int> size, const Owner& owner, std::size_t objects, const Rows<double, 4>& region,
                       const Rows<std::int32_t, 4>& dest, const Rows<bool, 2>& flip, const Vector<bool>& shown) {
    const std::size_t n = region.shape(0);
    require(dest.shape(0) == n && flip.shape(0) == n && shown.shape(0) == n,
            "region, dest, flip and shown must have one row for each image");
    require(owner.shape(0) == objects, "owner must have one row for each object");
    for (std::size_t k = 0; k < objects; ++k)
        require(owner.data()[k] >= 0 && static_cast<std::size_t>(owner.data()[k]) < n,
                "owner must hold indices of images");
    return {size.first, size.second, n, region.data(), dest.data(), flip.data(), shown.data(), nullptr};
}

nb::tuple boxes(const Rows<float, 4>& source_boxes, const Owner& owner, std::pair<int, int> size,
                const Rows<double, 4>& region, const Rows<std::int32_t, 4>& dest, const Rows<bool, 2>& flip,
                const Vector<bool>& shown, const std::optional<Rows<double, 4>>& window, double min_visible,
                double min_size) {
    const std::size_t count = source_boxes.shape(0);
    AlignedColumns images = columns(size, owner, count, region, dest, flip, shown);
    if (window) {
        require(window->shape(0) == images.count, "window must have one row for each image");
        images.window = window->data();
    }
    std::unique_ptr<double[]> out(new double[4 * count]);
    std::unique_ptr<bool[]> keep(new bool[count]);
    for (std::size_t k = 0; k < count; ++k)
        keep[k] = transform_box(images, static_cast<std::size_t>(owner.data()[k]), source_boxes.data() + 4 * k,
                            {min_visible, min_size}, out.get() + 4 * k);
    return nb::make_tuple(array_of(std::move(out), {count, 4}), array_of(std::move(keep), {count}));
}

nb::ndarray<nb::numpy, double> keypoints(const Rows<float, -1, 3>& source_keypoints, const Owner& owner,
                                         std::pair<int, int> size, const Rows<double, 4>& region,
                                         const Rows<std::int32_t, 4>& dest, const Rows<bool, 2>& flip, const Vector<bool>& shown,
                                         const std::optional<Vector<std::int64_t>>& swap) {
    const std::size_t count = source_keypoints.shape(0), each = source_keypoints.shape(1);
    const AlignedColumns images = columns(size, owner, count, region, dest, flip, shown);
    if (swap) {
        require(swap->shape(0) == each, "swap must have one number for each keypoint");
        for (std::size_t k = 0; k < each; ++k)
            require(swap->data()[k] >= 0 && static_cast<std::size_t>(swap->data()[k]) < each,
                    "swap must hold indices of keypoints");
    }
    std::unique_ptr<double[]> out(new double[3 * each * count]);
    for (std::size_t k = 0; k < count; ++k)
        transform_keypoints(images, static_cast<std::size_t>(owner.data()[k]), source_keypoints.data() + 3 * each * k, each,
                        swap ? swap->data() : nullptr, out.get() + 3 * each * k);
    return array_of(std::move(out), {count, each, 3});
}

}  // namespace

void bind_objects(nb::module_& m) {
    m.def("transform_boxes", boxes, "boxes"_a, "owner"_a, "size"_a, "region"_a, "dest"_a, "flip"_a, "shown"_a,
          "window"_a.none(), "min_visible"_a, "min_size"_a);
    m.def("transform_keypoints", keypoints, "keypoints"_a, "owner"_a, "size"_a, "region"_a, "dest"_a, "flip"_a,
          "shown"_a, "swap"_a.none());
}

}  // namespace stoker
