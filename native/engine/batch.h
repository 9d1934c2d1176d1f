// The work of one batch: columns of the index, parameters, and where the results go.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "decode/status.h"
#include "engine/renderer.h"
#include "pixels/image_writer.h"
#include "pixels/rgb_view.h"
#include "records/sample_columns.h"
#include "records/shards.h"
#include "resample/border.h"
#include "resample/placement.h"
#include "steps/steps.h"

namespace stoker {

// Columns of `count` rows; see stoker.augment.params.ImageParams.
struct ParameterColumns {
    const std::int32_t* crop;
    const double* region;
    const std::int32_t* dest;
    const bool* flip;
    const float* color;
    const std::uint8_t* fill;  // one for all
    const std::uint8_t* interpolation;  // null: bilinear

    Parameters at(std::size_t i) const {
        const auto filter =
            interpolation == nullptr ? Interpolation::bilinear : static_cast<Interpolation>(interpolation[i]);
        return {crop + 4 * i, region + 4 * i, dest + 4 * i, flip + 2 * i, filter};
    }
};

// A box of each image that is overwritten; see stoker.augment.extras.Erase.
struct EraseColumn {
    const std::int32_t* box;
    const std::uint64_t* keys;  // null: no noise
    Noise noise;                // whose mean it is in any case

    Noise noise_of(std::size_t i) const {
        Noise own = noise;
        own.key = keys[i];
        return own;
    }
    Rectangle at(std::size_t i) const { return {box[4 * i], box[4 * i + 1], box[4 * i + 2], box[4 * i + 3]}; }
};

// What only some batches have; see the optional fields of ImageParams.
struct Extras {
    const float* mean = nullptr;
    Steps steps;
    const double* warp = nullptr;
    int canvas_height = 0;
    int canvas_width = 0;
    const bool* nearest = nullptr;  // null: no warp picks
    const std::int32_t* tile = nullptr;  // height and width; null: there are no borders
    Border border;
    std::vector<EraseColumn> erase;

    bool uses_mean(std::size_t i) const;
    // The matrix of a sample that is warped; null for one that is not, as its canvas is the output.
    const double* warp_of(std::size_t i, int height, int width) const;
    // Whether the whole picture must be there before any of it can be stored.
    bool needs_whole_image(std::size_t i) const;
};

struct BatchOptions {
    DType dtype = DType::float32;
    Layout layout = Layout::nchw;
    int height = 0;
    int width = 0;
    std::int64_t max_pixels = 0;
    bool verify = true;
    bool decode_only = false;
};

class Batch {
  public:
    std::size_t count = 0;
    std::shared_ptr<const DataFiles> files;
    SampleColumns samples{};
    ParameterColumns parameters{};
    Extras extras;
    std::vector<RgbView> decoded;  // by position; without data for samples that are decoded here
    BatchOptions options;
    void* out = nullptr;
    std::uint8_t* status = nullptr;

    // Throws std::invalid_argument for parameters that would lead outside an image.
    void check() const;
    Target target(std::size_t i) const;
    Geometry geometry(std::size_t i, Orientation orientation) const;
    // The size of what has a border, if anything does: the output, or the canvas of a warp.
    int bordered_height() const;
    int bordered_width() const;
    // Where rows come for: dest, or all of the output where the sample is warped or has a border.
    Rectangle dest(std::size_t i) const;

    // The next sample that nobody works on; false if there is none.
    bool claim(std::size_t& i);
    void finish(std::size_t i, Status status, const char* message);
    // Samples that nobody has claimed become errors.
    void cancel();
    void wait();
    bool done();
    std::string reason(std::size_t i);

  private:
    void check_border(std::size_t i) const;
    void keep_reason(std::size_t i, const char* message) noexcept;
    // The size of what dest refers to: that, or the tile within a border.
    void find_frame(std::size_t i, int& height, int& width) const;
    Border border_of(std::size_t i) const;

    std::atomic<std::size_t> next_{0};
    std::mutex mutex_;
    std::condition_variable finished_;
    std::size_t completed_ = 0;
    std::vector<std::pair<std::size_t, std::string>> reasons_;
};

}  // namespace stoker
