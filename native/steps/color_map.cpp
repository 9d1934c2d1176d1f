#include "steps/color_map.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kernels.h"
#include "steps/step_kinds.h"
#include "steps/step_runner.h"

namespace stoker {
namespace {

std::uint8_t to_uint8(double value) {
    if (!(value > 0)) return 0;  // also for NaN
    return static_cast<std::uint8_t>(std::min(value, 255.0) + 0.5);
}

struct AffineColumns {
    const bool* where;
    const float* color;
    const float* mean_matrix;  // null: none
};

// A colour map that another step follows.
class Affine final : public ColumnStep<AffineColumns> {
  public:
    using ColumnStep::ColumnStep;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::color>("color", {3, 4}),
        optional(per_sample<&Columns::mean_matrix>("mean_matrix", {3, 3})),
    };

    void run(std::size_t i, StepRunner& runner) const override {
        float color[12];
        std::copy(columns_.color + 12 * i, columns_.color + 12 * (i + 1), color);
        if (columns_.mean_matrix != nullptr)
            add_mean(color, columns_.mean_matrix + 9 * i, runner.image().mean().data());
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
                tables.channel[c][x] = to_uint8(static_cast<double>(color[5 * c]) * x + color[4 * c + 3]);
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
};

const RegisteredStep affine{step_kind<Affine>("affine")};

}  // namespace

void add_mean(float* color, const float* mean, const double* rgb) {
    for (int row = 0; row < 3; ++row) {
        double sum = 0;
        for (int c = 0; c < 3; ++c) sum += static_cast<double>(mean[3 * row + c]) * rgb[c];
        color[4 * row + 3] = static_cast<float>(static_cast<double>(color[4 * row + 3]) + sum);
    }
}

}  // namespace stoker
