// The contract of a step: one operation on the pixels of finished images; see stoker.augment.steps.
//
// This is a whole step, in a .cpp file of this folder, which CMake finds:
//
//     struct PosterizeColumns { const bool* where; const std::uint8_t* bits; };
//
//     class Posterize final : public ColumnStep<PosterizeColumns> {
//       public:
//         using ColumnStep::ColumnStep;
//         static constexpr Column kColumns[] = {
//             per_sample<&Columns::where>("where"), per_sample<&Columns::bits>("bits")};
//         void run(std::size_t i, StepRunner& runner) const override {
//             const int mask = 0xFF00 >> std::min<int>(columns_.bits[i], 8);
//             LookupTables tables;
//             for (auto& values : tables.channel)
//                 for (int x = 0; x < 256; ++x) values[x] = static_cast<std::uint8_t>(x & mask);
//             runner.apply_lut(tables);
//         }
//     };
//     const RegisteredStep posterize{step_kind<Posterize>("posterize")};  // steps/step_kinds.h
//
// The name, in snake case, is the `operation` of the Python class, and the columns are its fields: Python checks
// their names, dtypes and shapes against the table. A step that maps each value to another calls apply_lut(); any
// other writes into the planes of 8-bit values that StepRunner::image() returns (pixels/planar_image.h). To read the
// pixels as they were, it calls copy() first.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "records/column.h"

namespace stoker {

class StepRunner;

// One step of a batch. It does not own its columns.
class Step {
  public:
    explicit Step(const bool* where) : where_(where) {}
    virtual ~Step() = default;
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

    bool applies(std::size_t i) const { return where_[i]; }
    // Changes the image of sample `i`, to which the step applies.
    virtual void run(std::size_t i, StepRunner& runner) const = 0;

  private:
    const bool* where_;
};

// A step that keeps its columns.
template <class ColumnsOfStep>
class ColumnStep : public Step {
  public:
    using Columns = ColumnsOfStep;

    explicit ColumnStep(const Columns& columns) : Step(columns.where), columns_(columns) {}

  protected:
    Columns columns_;
};

using Steps = std::vector<std::unique_ptr<const Step>>;

// A kind of step: its name, its columns, and the maker of a step. Only a weighted sum has chains.
struct StepKind {
    const char* name;
    std::span<const Column> columns;
    std::unique_ptr<const Step> (*make)(std::span<const ColumnValue> values, std::vector<Steps> chains);
};

// Returns the kind of a class. The class has a struct Columns and a table kColumns, and its constructor takes
// the struct, and chains if it has them. The constructor throws std::invalid_argument for wrong values.
template <class Kind>
constexpr StepKind step_kind(const char* name) {
    using Columns = typename Kind::Columns;
    return {name, Kind::kColumns,
            [](std::span<const ColumnValue> values, std::vector<Steps> chains) -> std::unique_ptr<const Step> {
                const auto columns = columns_from<Columns>(Kind::kColumns, values);
                if constexpr (std::is_constructible_v<Kind, Columns, std::vector<Steps>>) {
                    return std::make_unique<const Kind>(columns, std::move(chains));
                } else {
                    if (!chains.empty()) throw std::invalid_argument("only a weighted_sum has chains");
                    return std::make_unique<const Kind>(columns);
                }
            }};
}

}  // namespace stoker
