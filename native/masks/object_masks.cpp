#include "masks/object_masks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "masks/source_pixels.h"

namespace stoker {
namespace {

// The run lengths of one object: zeros and ones in turn, down the columns of its source.
class Runs {
  public:
    void set(const std::uint32_t* runs, std::int64_t count, int height) {
        ends_.resize(static_cast<std::size_t>(count));
        std::int64_t end = 0;
        for (std::size_t i = 0; i < ends_.size(); ++i) ends_[i] = end += runs[i];
        height_ = height;
    }

    // Sets the pixels of an axis-aligned output that show a one. The time depends on the pixels that the output shows.
    void draw(const SourcePixels& source_pixels, std::uint8_t* out) const {
        const std::vector<int>& columns = source_pixels.columns();
        for (std::size_t c = 0; c < columns.size(); ++c) {
            if (columns[c] < 0) continue;
            const std::int64_t top = std::int64_t{columns[c]} * height_, bottom = top + height_;
            std::int64_t at = top;
            const auto first_run = std::upper_bound(ends_.begin(), ends_.end(), top);
            auto run = static_cast<std::size_t>(first_run - ends_.begin());
            for (; at < bottom; at = ends_[run++]) {
                if (run % 2 == 0) continue;
                const std::int64_t end = std::min(ends_[run], bottom);
                const auto [first, last] =
                    source_pixels.rows_between(static_cast<int>(at - top), static_cast<int>(end - top));
                for (int r = first; r < last; ++r) out[static_cast<std::size_t>(r) * columns.size() + c] = 1;
            }
        }
    }

    // Sets the pixels of any output that show a one.
    void draw_each(const SourcePixels& source_pixels, std::uint8_t* out, std::size_t pixels) {
        source_.resize(static_cast<std::size_t>(ends_.back()));
        std::int64_t at = 0;
        for (std::size_t run = 0; run < ends_.size(); at = ends_[run++])
            std::memset(source_.data() + at, run & 1, static_cast<std::size_t>(ends_[run] - at));
        drawn_.resize(pixels);
        source_pixels.sample(source_.data(), 1, height_, 0, drawn_.data());
        for (std::size_t i = 0; i < pixels; ++i) out[i] |= drawn_[i];
    }

  private:
    std::vector<std::int64_t> ends_;
    int height_ = 0;
    std::vector<std::uint8_t> source_, drawn_;
};

}  // namespace

void fill_polygons(const ObjectMasks& masks, const ImageColumns& images, const Point* points,
                   const std::int64_t* sizes, const std::int64_t* polygons) {
    PolygonFill fill(masks.height, masks.width);
    for (std::size_t k = 0; k < masks.count; ++k) {
        const std::size_t i = static_cast<std::size_t>(masks.owner[k]);
        std::memset(masks.at(k), 0, masks.pixels());  // just before the mask is drawn, so that it is in the cache
        for (std::int64_t end = polygons[k]; end > 0; --end, points += *sizes++)
            if (images.shown[i])
                fill.add(points, static_cast<std::size_t>(*sizes), images.region + 4 * i, images.matrix + 9 * i,
                         masks.at(k));
    }
}

void fill_runs(const ObjectMasks& masks, const ImageColumns& images, const std::int32_t* heights,
               const std::int32_t* widths, const std::uint32_t* runs, const std::int64_t* counts) {
    SourcePixels source_pixels(masks.height, masks.width);
    std::size_t current = images.count;  // the image that `source_pixels` belongs to
    Runs object;
    for (std::size_t k = 0; k < masks.count; runs += counts[k++]) {
        const std::size_t i = static_cast<std::size_t>(masks.owner[k]);
        if (counts[k] == 0 || !images.shown[i]) continue;
        const SourceWindow window{heights[i], widths[i], images.region + 4 * i};
        if (i != current) source_pixels.find(images.matrix + 9 * i, window, true);
        current = i;
        object.set(runs, counts[k], heights[i]);
        if (source_pixels.axis_aligned())
            object.draw(source_pixels, masks.at(k));
        else
            object.draw_each(source_pixels, masks.at(k), masks.pixels());
    }
}

}  // namespace stoker
