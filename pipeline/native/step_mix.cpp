// AugMix: chains of steps, and the resampling that only they contain.
#include <algorithm>
#include <array>

#include "steps.h"

namespace stoker {
namespace {

class Shift final : public Step {
  public:
    Shift(const bool* where, const double* matrix, const std::uint8_t fill[3], bool nearest)
        : Step(where), matrix_(matrix), fill_{fill[0], fill[1], fill[2]}, nearest_(nearest) {}

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& picture = runner.picture();
        PlanarSink sink;
        if (nearest_) {
            const PlanarImage& source = runner.copy();
            sink.begin(picture, {0, 0, picture.height(), picture.width()}, fill_.data());
            runner.picker().run(source, matrix_ + 9 * i, picture.height(), picture.width(), fill_.data(), sink);
            return;
        }
        Warper& warper = runner.warper();
        const WarpMap map(matrix_ + 9 * i, Window{0, 0, picture.width(), picture.height()});
        const Reach reach = map.reach(picture.height(), picture.width());
        const Window window = warper.begin(map, reach, picture.height(), picture.width(), fill_.data());
        const auto plane = static_cast<std::size_t>(picture.plane());
        std::vector<std::uint8_t> rgb(3 * static_cast<std::size_t>(window.right - window.left));
        for (int y = window.top; y < window.bottom; ++y) {
            const std::uint8_t* planes = picture.row(y) + window.left;
            for (std::size_t x = 0; 3 * x < rgb.size(); ++x)
                for (std::size_t c = 0; c < 3; ++c) rgb[3 * x + c] = planes[c * plane + x];
            warper.push(rgb.data());
        }
        sink.begin(picture, {0, 0, picture.height(), picture.width()}, fill_.data());
        warper.finish(sink);
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
        PlanarImage& picture = runner.picture();
        const float* weights = weights_ + i * (chains_.size() + 1);
        std::vector<float>& sums = runner.floats();
        sums.assign(3 * static_cast<std::size_t>(picture.plane()) * static_cast<std::size_t>(picture.height()), 0.0F);
        add(picture, weights[0], sums);
        PlanarImage chained;
        for (std::size_t k = 0; k < chains_.size(); ++k) {
            chained.copy(picture);
            runner.inner().run(chains_[k], i, chained);
            add(chained, weights[k + 1], sums);
        }
        const int row = 3 * picture.plane();
        for (int y = 0; y < picture.height(); ++y)
            step_kernels().round(sums.data() + static_cast<std::ptrdiff_t>(y) * row, row, picture.row(y));
    }

  private:
    static void add(const PlanarImage& picture, float weight, std::vector<float>& sums) {
        const int row = 3 * picture.plane();
        for (int y = 0; y < picture.height(); ++y)
            step_kernels().add(picture.row(y), weight, row, sums.data() + static_cast<std::ptrdiff_t>(y) * row);
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
