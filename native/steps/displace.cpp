// The step of ElasticTransform: each pixel is moved by a smooth random field; see stoker.augment.formulas.displacement.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "pixels/displacement.h"
#include "steps/step_kinds.h"
#include "steps/step_runner.h"

namespace stoker {
namespace {

struct DisplaceColumns {
    const bool* where;
    const std::uint64_t* keys;
    const double* alpha;  // along x, along y
    const double* sigma;  // likewise
    const std::uint8_t* fill;
    const bool* nearest;
};

// Moves each pixel by a displacement field.
class Displace final : public Step {
  public:
    using Columns = DisplaceColumns;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::keys>("keys"),
        per_batch<&Columns::alpha>("alpha", {2}),
        per_batch<&Columns::sigma>("sigma", {2}),
        per_batch<&Columns::fill>("fill", {3}),
        per_batch<&Columns::nearest>("nearest"),
    };

    explicit Displace(const Columns& columns) : Step(columns.where), columns_(columns) {
        for (int axis = 0; axis < 2; ++axis)
            if (!(columns.sigma[axis] >= 0 && columns.sigma[axis] <= kMaxDisplacementSigma))
                throw std::invalid_argument("sigma must be two numbers within 0 to 1000");
    }

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        const PlanarImage& source = runner.copy();
        const int height = image.height(), width = image.width();
        const auto pixels = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
        std::vector<double> field(2 * pixels);
        make_displacement(columns_.keys[i], height, width, columns_.alpha, columns_.sigma, field.data());
        const double half = *columns_.nearest ? 0.5 : 0;
        const double* down = field.data();
        const double* across = down + pixels;
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x, ++down, ++across) {
                const double row = std::clamp(y + *down, -1.0, static_cast<double>(height)) + half;
                const double column = std::clamp(x + *across, -1.0, static_cast<double>(width)) + half;
                const double top = std::floor(row), left = std::floor(column);
                std::uint8_t* to = image.row(y) + x;
                if (*columns_.nearest)
                    pick(source, static_cast<int>(top), static_cast<int>(left), to);
                else
                    interpolate(source, static_cast<int>(top), static_cast<int>(left), row - top, column - left, to);
            }
    }

  private:
    // The value of channel `c`; `fill` outside of the image.
    double value(const PlanarImage& image, int y, int x, int c) const {
        if (y < 0 || x < 0 || y >= image.height() || x >= image.width()) return columns_.fill[c];
        return image.row(y)[c * image.plane() + x];
    }

    void pick(const PlanarImage& image, int y, int x, std::uint8_t* to) const {
        for (int c = 0; c < 3; ++c) to[c * image.plane()] = static_cast<std::uint8_t>(value(image, y, x, c));
    }

    void interpolate(const PlanarImage& image, int y, int x, double down, double right, std::uint8_t* to) const {
        for (int c = 0; c < 3; ++c) {
            double upper = value(image, y, x, c), lower = value(image, y + 1, x, c);
            upper += (value(image, y, x + 1, c) - upper) * right;
            lower += (value(image, y + 1, x + 1, c) - lower) * right;
            to[c * image.plane()] = static_cast<std::uint8_t>(upper + (lower - upper) * down + 0.5);
        }
    }

    Columns columns_;
};

const RegisteredStep displace{step_kind<Displace>("displace")};

}  // namespace
}  // namespace stoker
