// Steps that degrade an image as cameras and files do: noise, and the loss of JPEG.
#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "decode/jpeg/turbo_decoder.h"
#include "decode/read_window.h"
#include "pixels/noise.h"
#include "steps/step_kinds.h"
#include "steps/step_runner.h"
#include "transcode/jpeg_encoder.h"

namespace stoker {
namespace {

struct AddNoiseColumns {
    const bool* where;
    const std::uint64_t* keys;
    const float* mean;
    const float* deviation;
    const float* quantiles;
};

// Adds normal noise, for each pixel and channel.
class AddNoise final : public ColumnStep<AddNoiseColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::keys>("keys"),
        per_sample<&Columns::mean>("mean"),
        per_sample<&Columns::deviation>("deviation"),
        per_batch<&Columns::quantiles>("quantiles", {kNoiseQuantiles}),
    };

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        const double mean = columns_.mean[i], deviation = columns_.deviation[i];
        const Noise noise{columns_.quantiles, columns_.keys[i], {0, 0, 0}, {1, 1, 1}};
        std::uint64_t pixel = 0;
        for (int y = 0; y < image.height(); ++y) {
            std::uint8_t* row = image.row(y);
            for (int x = 0; x < image.width(); ++x, ++pixel) {
                float normal[3];
                noise.at(pixel, normal);
                for (int c = 0; c < 3; ++c) {
                    std::uint8_t& value = row[c * image.plane() + x];
                    const double level = value + normal[c] * deviation + mean;
                    value = static_cast<std::uint8_t>(std::clamp(level, 0.0, 255.0) + 0.5);
                }
            }
        }
    }
};

struct CompressColumns {
    const bool* where;
    const std::uint8_t* quality;
};

// Encodes the image as a JPEG, and decodes it.
class Compress final : public ColumnStep<CompressColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::quality>("quality"),
    };

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        const int height = image.height(), width = image.width();
        std::vector<std::uint8_t>& rgb = runner.interleaved();
        const std::vector<std::uint8_t> jpeg = encode_jpeg(rgb.data(), height, width, {.quality = columns_.quality[i]});
        const std::size_t stride = 3 * static_cast<std::size_t>(width);
        const auto decoder = std::make_unique<TurboDecoder>();
        EncodedImage encoded;
        encoded.payload = {jpeg.data(), jpeg.size()};
        const auto store = [&](const std::uint8_t* const* rows, int y, int count) {
            for (int k = 0; k < count; ++k)
                std::copy(rows[k], rows[k] + stride, rgb.data() + static_cast<std::size_t>(y + k) * stride);
        };
        if (!decoder->open(encoded) || !read_window(*decoder, {0, 0, width, height}, 8, store).ok())
            throw std::runtime_error(decoder->failure().message);
        image.deinterleave(rgb.data());
    }
};

const RegisteredStep add_noise{step_kind<AddNoise>("add_noise")};
const RegisteredStep compress{step_kind<Compress>("compress")};

}  // namespace
}  // namespace stoker
