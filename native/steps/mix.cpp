// AugMix: chains of steps, and the resampling that only they contain.
#include <algorithm>
#include <array>

#include "steps/steps.h"

namespace stoker {
namespace {

class Shift final : public Step {
  public:
    Shift(const bool* where, const double* matrix, const std::uint8_t fill[3], bool nearest)
        : Step(where), matrix_(matrix), fill_{fill[0], fill[1], fill[2]}, nearest_(nearest) {}

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        const PlanarImage& source = nearest_ ? runner.copy() : image;  // of which a warper keeps what it needs
        const int height = image.height(), width = image.width();
        PlanarSink sink;
        sink.begin(image, {0, 0, height, width}, fill_.data());
        if (nearest_)
            runner.nearest_sampler().run(source, matrix_ + 9 * i, height, width, fill_.data(), sink);
        else
            runner.warper().run(source, matrix_ + 9 * i, height, width, fill_.data(), sink);
    }

  private:
    const double* matrix_;
    std::array<std::uint8_t, 3> fill_;
    bool nearest_;
};

class Mix final : public Step {
  public:
    Mix(const bool* where, const float* weights, std::vector<Steps> chains)
        : Step(where), weights_(weights), chains_(std::move(chains)) {}

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        const float* weights = weights_ + i * (chains_.size() + 1);
        std::vector<float>& sums = runner.floats();
        sums.assign(3 * static_cast<std::size_t>(image.plane()) * static_cast<std::size_t>(image.height()), 0.0F);
        add(image, weights[0], sums);
        PlanarImage chained;
        for (std::size_t k = 0; k < chains_.size(); ++k) {
            chained.copy(image);
            runner.inner().run(chains_[k], i, chained);
            add(chained, weights[k + 1], sums);
        }
        const int row = 3 * image.plane();
        for (int y = 0; y < image.height(); ++y)
            step_kernels().round(sums.data() + static_cast<std::ptrdiff_t>(y) * row, row, image.row(y));
    }

  private:
    static void add(const PlanarImage& image, float weight, std::vector<float>& sums) {
        const int row = 3 * image.plane();
        for (int y = 0; y < image.height(); ++y)
            step_kernels().add(image.row(y), weight, row, sums.data() + static_cast<std::ptrdiff_t>(y) * row);
    }

    const float* weights_;
    std::vector<Steps> chains_;
};

}  // namespace

std::unique_ptr<Step> make_shift(const bool* where, const double* matrix, const std::uint8_t fill[3], bool nearest) {
    return std::make_unique<Shift>(where, matrix, fill, nearest);
}
std::unique_ptr<Step> make_mix(const bool* where, const float* weights, std::vector<Steps> chains) {
    return std::make_unique<Mix>(where, weights, std::move(chains));
}

}  // namespace stoker
