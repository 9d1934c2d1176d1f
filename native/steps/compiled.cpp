// The step that calls a user's compiled function.
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "steps/step_kinds.h"
#include "steps/step_runner.h"

namespace stoker {
namespace {

struct CompiledColumns {
    const bool* where;
    const std::uint64_t* address;
    RowsOfAnySize<double> values;
};

// Calls a function with the image as interleaved RGB and with the values of the sample. The function changes the
// pixels in place. It runs on the threads of the engine, without Python's lock.
class Compiled final : public Step {
  public:
    using Columns = CompiledColumns;
    static constexpr Column kColumns[] = {
        per_sample<&Columns::where>("where"),
        per_batch<&Columns::address>("address"),
        per_sample<&Columns::values>("values", {kAnySize}),
    };

    explicit Compiled(const Columns& columns)
        : Step(columns.where), function_(reinterpret_cast<Function*>(*columns.address)), values_(columns.values) {
        if (function_ == nullptr) throw std::invalid_argument("address must be that of a function; found 0");
    }

    void run(std::size_t i, StepRunner& runner) const override {
        std::vector<std::uint8_t>& rgb = runner.interleaved();
        PlanarImage& image = runner.image();
        function_(rgb.data(), image.height(), image.width(), values_.row(i));
        image.deinterleave(rgb.data());
    }

  private:
    using Function = void(std::uint8_t* rgb, std::int64_t height, std::int64_t width, const double* values);

    Function* function_;
    RowsOfAnySize<double> values_;
};

const RegisteredStep compiled{step_kind<Compiled>("compiled")};

}  // namespace
}  // namespace stoker
