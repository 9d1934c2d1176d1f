// The steps of AugMix: a weighted sum of chains, and the resampling within chains.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/steps/step_kernels.h"
#include "steps/step_kinds.h"
#include "steps/step_runner.h"

namespace stoker {
namespace {

struct DistortColumns {
    const bool* where;
    const double* matrix;
    const std::uint8_t* fill;
    const bool* nearest;
};

// Resamples the image to its own size by a projective map.
class Distort final : public ColumnStep<DistortColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::matrix>("matrix", {3, 3}),
        per_batch<&Columns::fill>("fill", {3}),
        per_batch<&Columns::nearest>("nearest"),
    };

    void run(std::size_t i, StepRunner& runner) const override {
        const bool nearest = *columns_.nearest;
        PlanarImage& image = runner.image();
        const PlanarImage& source = nearest ? runner.copy() : image;  // a warper copies the pixels that it needs
        const int height = image.height(), width = image.width();
        PlanarSink sink;
        sink.begin(image, {0, 0, height, width}, columns_.fill);
        if (nearest)
            runner.nearest_sampler().run(source, columns_.matrix + 9 * i, height, width, columns_.fill, sink);
        else
            runner.warper().run(source, columns_.matrix + 9 * i, height, width, columns_.fill, sink);
    }
};

struct WeightedSumColumns {
    const bool* where;
    RowsOfAnySize<float> weights;  // of the image, then of each chain
};

// Computes a weighted sum of the image and of the results of chains of steps.
class WeightedSum final : public Step {
  public:
    using Columns = WeightedSumColumns;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::weights>("weights", {kAnySize}),
    };

    WeightedSum(const Columns& columns, std::vector<Steps> chains)
        : Step(columns.where), weights_(columns.weights), chains_(std::move(chains)) {
        if (weights_.row_size != chains_.size() + 1)
            throw std::invalid_argument("weights must have a column for the image and one for each chain");
    }

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        const float* weights = weights_.row(i);
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

    RowsOfAnySize<float> weights_;
    std::vector<Steps> chains_;
};

const RegisteredStep distort{step_kind<Distort>("distort")};
const RegisteredStep weighted_sum{step_kind<WeightedSum>("weighted_sum")};

}  // namespace
}  // namespace stoker
