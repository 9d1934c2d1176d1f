// The step of ElasticTransform: each pixel is moved by a smooth random field; see stoker.augment.noise.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "kernels/rounding.h"
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
class Displace final : public ColumnStep<DisplaceColumns> {
  public:
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_sample<&Columns::keys>("keys"),
        per_batch<&Columns::alpha>("alpha", {2}),
        per_batch<&Columns::sigma>("sigma", {2}),
        per_batch<&Columns::fill>("fill", {3}),
        per_batch<&Columns::nearest>("nearest"),
    };

    explicit Displace(const Columns& columns) : ColumnStep(columns) {
        for (int axis = 0; axis < 2; ++axis)
            if (!(columns.sigma[axis] >= 0 && columns.sigma[axis] <= kMaxDisplacementSigma))
                throw std::invalid_argument("sigma must be two numbers within 0 to 1000");
    }

    void run(std::size_t i, StepRunner& runner) const override {
        PlanarImage& image = runner.image();
        const PlanarImage& source = runner.copy();
        const int height = image.height(), width = image.width();
        const Size size{height, width};
        const std::size_t pixels = size.pixels();
        static thread_local std::vector<double> field;  // new pages cost more than writing them
        if (field.size() < 2 * pixels) field.resize(2 * pixels);
        make_displacement(columns_.keys[i], size, columns_.alpha, columns_.sigma, field.data());
        const double half = *columns_.nearest ? 0.5 : 0;
        const double* down = field.data();
        const double* across = down + pixels;
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x, ++down, ++across) {
                const double row = std::clamp(y + *down, -1.0, static_cast<double>(height)) + half;
                const double column = std::clamp(x + *across, -1.0, static_cast<double>(width)) + half;
                const int top = round_down(row), left = round_down(column);
                std::uint8_t* to = image.row(y) + x;
                if (*columns_.nearest)
                    pick(source, top, left, to);
                else
                    interpolate(source, top, left, row - top, column - left, to);
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

    static std::uint8_t between(double top_left, double top_right, double bottom_left, double bottom_right, double down, double right) {
        const double upper = top_left + (top_right - top_left) * right, lower = bottom_left + (bottom_right - bottom_left) * right;
        return static_cast<std::uint8_t>(upper + (lower - upper) * down + 0.5);
    }

    void interpolate(const PlanarImage& image, int y, int x, double down, double right, std::uint8_t* to) const {
        const int plane = image.plane();
        if (y < 0 || x < 0 || y + 1 >= image.height() || x + 1 >= image.width()) {
            for (int c = 0; c < 3; ++c)
                to[c * plane] = between(value(image, y, x, c), value(image, y, x + 1, c), value(image, y + 1, x, c),
                                        value(image, y + 1, x + 1, c), down, right);
            return;
        }
        const std::uint8_t *upper = image.row(y) + x, *lower = image.row(y + 1) + x;
        for (int c = 0; c < 3; ++c, upper += plane, lower += plane)
            to[c * plane] = between(upper[0], upper[1], lower[0], lower[1], down, right);
    }
};

const RegisteredStep displace{step_kind<Displace>("displace")};

}  // namespace
}  // namespace stoker
