#include <cmath>
#include <memory>

#include "bind/bind.h"
#include "masks/mask_png.h"
#include "masks/object_masks.h"
#include "masks/source_pixels.h"

namespace stoker {
namespace {

template <int... shape>
using Doubles = Array<const double, nb::shape<-1, shape...>>;
using Flags = Vector<bool>;
using Masks = Array<std::uint8_t, nb::ndim<3>>;

constexpr std::size_t kMaxMaskSide = 1 << 15;    // height and width of an output
constexpr std::int64_t kMaxPixels = 89'478'485;  // of a mask; the caller decodes larger ones, because Pillow warns of them
constexpr double kTolerance = 1e-3;              // for rounding errors of a region

template <class T>
bool all_finite(const T& array) {
    for (std::size_t i = 0; i < array.size(); ++i)
        if (!std::isfinite(array.data()[i])) return false;
    return true;
}

ImageColumns images_of(const Doubles<3, 3>& matrix, const Doubles<4>& region, const Flags& shown) {
    require(region.shape(0) == matrix.shape(0) && shown.shape(0) == matrix.shape(0),
            "matrix, region and shown must have one row for each image");
    require(all_finite(matrix) && all_finite(region), "matrix and region must be finite");
    return {matrix.shape(0), matrix.data(), region.data(), shown.data()};
}

void require_within(const ImageColumns& images, const Vector<std::int32_t>& height, const Vector<std::int32_t>& width) {
    require(height.shape(0) == images.count && width.shape(0) == images.count,
            "height and width must have one row for each image");
    for (std::size_t i = 0; i < images.count; ++i) {
        const double* region = images.region + 4 * i;
        require(height.data()[i] >= 1 && width.data()[i] >= 1, "height and width must be at least 1");
        require(region[0] >= -kTolerance && region[2] <= height.data()[i] + kTolerance &&
                    region[1] >= -kTolerance && region[3] <= width.data()[i] + kTolerance,
                "region must lie within the source");
    }
}

void require_size(const Masks& out) {
    require(out.shape(1) >= 1 && out.shape(2) >= 1 && out.shape(1) <= kMaxMaskSide && out.shape(2) <= kMaxMaskSide,
            "out must have masks of 1 to 32768 pixels a side");
}

ObjectMasks masks_of(const Masks& out, const Vector<std::int64_t>& owner, const ImageColumns& images) {
    require_size(out);
    require(owner.shape(0) == out.shape(0), "owner must have one row for each mask");
    for (std::size_t k = 0; k < owner.shape(0); ++k)
        require(owner.data()[k] >= 0 && static_cast<std::size_t>(owner.data()[k]) < images.count,
                "owner must hold indices of images");
    return {out.shape(0), static_cast<int>(out.shape(1)), static_cast<int>(out.shape(2)), owner.data(), out.data()};
}

// Checks that `counts` has `rows` numbers, which sum to `total`.
void require_sum(const Vector<std::int64_t>& counts, std::size_t rows, std::size_t total, const char* message) {
    std::size_t left = total;
    bool good = counts.shape(0) == rows;
    for (std::size_t i = 0; good && i < rows; ++i) {
        good = counts.data()[i] >= 0 && static_cast<std::size_t>(counts.data()[i]) <= left;
        left -= good ? static_cast<std::size_t>(counts.data()[i]) : 0;
    }
    require(good && left == 0, message);
}

void draw_polygons(const Masks& out, const Vector<std::int64_t>& owner, const Doubles<3, 3>& matrix,
                   const Doubles<4>& region, const Flags& shown, const Doubles<2>& points,
                   const Vector<std::int64_t>& sizes, const Vector<std::int64_t>& polygons) {
    const ImageColumns images = images_of(matrix, region, shown);
    const ObjectMasks masks = masks_of(out, owner, images);
    require_sum(polygons, masks.count, sizes.shape(0),
                "polygons must have a number for each mask, and sum to the length of sizes");
    require_sum(sizes, sizes.shape(0), points.shape(0), "sizes must sum to the length of points");
    require(all_finite(points), "points must be finite");
    static_assert(sizeof(Point) == 2 * sizeof(double));
    const nb::gil_scoped_release release;
    fill_polygons(masks, images, reinterpret_cast<const Point*>(points.data()), sizes.data(), polygons.data());
}

void draw_runs(const Masks& out, const Vector<std::int64_t>& owner, const Doubles<3, 3>& matrix,
               const Doubles<4>& region, const Flags& shown, const Vector<std::int32_t>& height,
               const Vector<std::int32_t>& width, const Vector<std::uint32_t>& runs,
               const Vector<std::int64_t>& counts) {
    const ImageColumns images = images_of(matrix, region, shown);
    require_within(images, height, width);
    const ObjectMasks masks = masks_of(out, owner, images);
    require_sum(counts, masks.count, runs.shape(0),
                "counts must have a number for each mask, and sum to the length of runs");
    const std::uint32_t* run = runs.data();
    for (std::size_t k = 0; k < masks.count; run += counts.data()[k++]) {
        std::int64_t pixels = 0;
        for (std::int64_t i = 0; i < counts.data()[k]; ++i) pixels += run[i];
        const std::int64_t i = masks.owner[k];
        require(counts.data()[k] == 0 || pixels == std::int64_t{height.data()[i]} * width.data()[i],
                "run lengths must sum to the pixels of their image");
    }
    const nb::gil_scoped_release release;
    fill_runs(masks, images, height.data(), width.data(), runs.data(), counts.data());
}

// Returns the indices of masks that were not drawn, because MaskPng does not decode them.
std::vector<std::size_t> class_masks(const Masks& out, const nb::list& data, const Doubles<3, 3>& matrix,
                                     const Doubles<4>& region, const Flags& shown,
                                     const Vector<std::int32_t>& height, const Vector<std::int32_t>& width,
                                     std::uint8_t fill) {
    const ImageColumns images = images_of(matrix, region, shown);
    require_within(images, height, width);
    require_size(out);
    require(out.shape(0) == images.count && data.size() == images.count,
            "data and out must have one row for each image");
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (const nb::handle one : data) buffers.push_back(std::make_unique<Buffer>(one));
    std::vector<std::size_t> left;
    const nb::gil_scoped_release release;
    SourcePixels source_pixels(static_cast<int>(out.shape(1)), static_cast<int>(out.shape(2)));
    MaskPng png;
    for (std::size_t i = 0; i < images.count; ++i) {
        const int h = height.data()[i], w = width.data()[i];
        source_pixels.find(matrix.data() + 9 * i, {h, w, region.data() + 4 * i}, shown.data()[i]);
        const std::uint8_t* pixels = nullptr;
        if (std::int64_t{h} * w <= kMaxPixels)
            pixels = png.decode(buffers[i]->data(), buffers[i]->size(), h, w, source_pixels.last_row() + 1);
        if (pixels == nullptr)
            left.push_back(i);
        else
            source_pixels.sample(pixels, MaskPng::stride(w), 1, fill, out.data() + i * out.shape(1) * out.shape(2));
    }
    return left;
}

}  // namespace

void bind_masks(nb::module_& m) {
    // `out` is not converted, because the masks would be drawn into a copy.
    m.def("fill_polygons", draw_polygons, "out"_a.noconvert(), "owner"_a, "matrix"_a, "region"_a, "shown"_a,
          "points"_a, "sizes"_a, "polygons"_a);
    m.def("fill_runs", draw_runs, "out"_a.noconvert(), "owner"_a, "matrix"_a, "region"_a, "shown"_a,
          "height"_a, "width"_a, "runs"_a, "counts"_a);
    m.def("class_masks", class_masks, "out"_a.noconvert(), "data"_a, "matrix"_a, "region"_a, "shown"_a,
          "height"_a, "width"_a, "fill"_a);
}

}  // namespace stoker
