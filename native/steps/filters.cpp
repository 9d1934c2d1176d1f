// Steps that read neighbouring pixels.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/steps/step_kernels.h"
#include "steps/step_kinds.h"
#include "steps/step_runner.h"

namespace stoker {
namespace {

struct SharpenColumns {
    const bool* where;
    const float* factor;
};

// Multiplies the distance of each pixel from the smoothed image.
class Sharpen final : public ColumnStep<SharpenColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::factor>("factor"),
    };

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        if (image.height() < 3 || image.width() < 3) return;
        const PlanarImage& before = runner.copy();
        // A change of more than 255 has the effect of one of 255.
        const double amount = std::clamp(1 - static_cast<double>(columns_.factor[i]), -256.0, 256.0);
        if (std::isnan(amount)) return;
        for (int y = 1; y < image.height() - 1; ++y)
            for (int c = 0; c < 3; ++c) {
                const int at = c * image.plane();
                const std::uint8_t* rows[3] = {before.row(y - 1) + at, before.row(y) + at, before.row(y + 1) + at};
                step_kernels().sharpen(rows, amount, image.width(), image.row(y) + at);
            }
    }
};

constexpr int kMaxTaps = 1 << 15;

struct BlurColumns {
    const bool* where;
    const std::int32_t* kernel_size;  // height, width
    const float* sigma;               // along y, along x
};

// Convolves with a Gaussian that is cut off.
class Blur final : public Step {
  public:
    using Columns = BlurColumns;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_batch<&Columns::kernel_size>("kernel_size", {2}),
        per_sample<&Columns::sigma>("sigma", {2}),
    };

    explicit Blur(const Columns& columns)
        : Step(columns.where), taps_y_(columns.kernel_size[0]), taps_x_(columns.kernel_size[1]), sigma_(columns.sigma) {
        for (const int taps : {taps_y_, taps_x_})
            if (taps < 1 || taps > kMaxTaps || taps % 2 == 0)
                throw std::invalid_argument("kernel_size must be two odd numbers within 1 to 32768");
    }

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        const PlanarImage& before = runner.copy();
        const std::vector<float> down = gaussian(taps_y_, sigma_[2 * i]), across = gaussian(taps_x_, sigma_[2 * i + 1]);
        std::vector<const std::uint8_t*> rows(down.size());
        std::vector<float>& row = runner.floats();
        const int margin = taps_x_ / 2;
        row.resize(static_cast<std::size_t>(image.plane() + taps_x_) + kRowSlack);
        for (int y = 0; y < image.height(); ++y)
            for (int c = 0; c < 3; ++c) {
                for (int t = 0; t < taps_y_; ++t)
                    rows[static_cast<std::size_t>(t)] =
                        before.row(reflect(y + t - taps_y_ / 2, image.height())) + c * image.plane();
                float* inner = row.data() + margin;
                step_kernels().blur_down(rows.data(), down.data(), taps_y_, image.width(), inner);
                for (int x = 1; x <= margin; ++x) inner[-x] = inner[reflect(-x, image.width())];
                for (int x = image.width(); x < image.width() + margin; ++x)
                    inner[x] = inner[reflect(x, image.width())];
                step_kernels().blur_across(row.data(), across.data(), taps_x_, image.width(),
                                           image.row(y) + c * image.plane());
            }
    }

  private:
    static std::vector<float> gaussian(int taps, float sigma) {
        std::vector<double> weights(static_cast<std::size_t>(taps));
        double sum = 0;
        for (int t = 0; t < taps; ++t) {
            const double distance = (t - taps / 2) / static_cast<double>(sigma);
            sum += weights[static_cast<std::size_t>(t)] = std::exp(-0.5 * distance * distance);
        }
        std::vector<float> normalised;
        for (const double weight : weights) normalised.push_back(static_cast<float>(weight / sum));
        return normalised;
    }

    int taps_y_, taps_x_;
    const float* sigma_;
};

const RegisteredStep sharpen{step_kind<Sharpen>("sharpen")};
const RegisteredStep blur{step_kind<Blur>("blur")};

}  // namespace
}  // namespace stoker
