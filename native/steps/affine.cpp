#include <algorithm>
#include <cmath>
#include <cstring>

#include "steps/steps.h"

namespace stoker {
namespace {

std::uint8_t to_uint8(double value) {
    if (!(value > 0)) return 0;  // NaN, too
    return static_cast<std::uint8_t>(std::min(value, 255.0) + 0.5);
}

class Affine final : public Step {
  public:
    Affine(const bool* where, const float* color, const float* mean) : Step(where), color_(color), mean_(mean) {}

    void run(std::size_t i, StepRunner& runner) const override {
        float color[12];
        std::copy(color_ + 12 * i, color_ + 12 * (i + 1), color);
        if (mean_ != nullptr) add_mean(color, mean_ + 9 * i, runner.image().mean().data());
        if (is_diagonal(color))
            by_table(color, runner);
        else
            by_rows(color, runner.image());
    }

  private:
    static void by_table(const float* color, StepRunner& runner) {
        LookupTables tables;
        for (int c = 0; c < 3; ++c)
            for (int x = 0; x < 256; ++x)
                tables.level[c][x] = to_uint8(static_cast<double>(color[5 * c]) * x + color[4 * c + 3]);
        runner.apply_lut(tables);
    }

    static void by_rows(const float* color, PlanarImage& image) {
        std::vector<std::uint8_t> changed(3 * static_cast<std::size_t>(image.plane()));
        StorePass pass;
        pass.plane = image.plane();
        pass.width = image.width();
        pass.color = color;
        pass.out = changed.data();
        pass.out_plane = static_cast<std::size_t>(image.plane());
        for (int y = 0; y < image.height(); ++y) {
            pass.planes = image.row(y);
            kernels().store(pass, DType::uint8, Layout::nchw, false);
            std::memcpy(image.row(y), changed.data(), changed.size());
        }
    }

    const float* color_;
    const float* mean_;
};

}  // namespace

void add_mean(float* color, const float* mean, const double* rgb) {
    for (int row = 0; row < 3; ++row) {
        double sum = 0;
        for (int c = 0; c < 3; ++c) sum += static_cast<double>(mean[3 * row + c]) * rgb[c];
        color[4 * row + 3] = static_cast<float>(static_cast<double>(color[4 * row + 3]) + sum);
    }
}

std::unique_ptr<Step> make_affine(const bool* where, const float* color, const float* mean) {
    return std::make_unique<Affine>(where, color, mean);
}

}  // namespace stoker
