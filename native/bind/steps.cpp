#include "bind/steps.h"

#include <algorithm>
#include <iterator>

#include "steps/step_kinds.h"

namespace stoker {
namespace {

const StepKind& find_kind(const std::string& name) {
    std::string known;
    for (const StepKind& kind : step_kinds()) {
        if (name == kind.name) return kind;
        known += (known.empty() ? "" : ", ") + std::string(kind.name);
    }
    throw nb::value_error(("there is no step '" + name + "'; the kinds are " + known).c_str());
}

}  // namespace

void BoundSteps::append(const std::string& name, const nb::dict& columns, const std::vector<BoundSteps*>& chains) {
    require_open();
    const StepKind& kind = find_kind(name);
    const auto values = check_columns(columns, kind.columns, count_, kept_);
    for (const BoundSteps* chain : chains)
        require(chain != nullptr && chain != this && chain->count_ == count_,
                "chains must be other steps, for the same number of samples");
    std::vector<Steps> taken;
    for (BoundSteps* chain : chains) taken.push_back(chain->take(kept_));
    steps_.push_back(kind.make(values, std::move(taken)));
}

Steps BoundSteps::take(KeptArrays& kept) {
    require_open();
    taken_ = true;
    std::move(kept_.begin(), kept_.end(), std::back_inserter(kept));
    kept_.clear();
    return std::move(steps_);
}

void BoundSteps::require_open() const {
    require(!taken_, "these steps belong to a batch or a weighted sum already: make new steps");
}

void bind_steps(nb::module_& m) {
    nb::dict tables;
    for (const StepKind& kind : step_kinds()) tables[kind.name] = table_of(m, kind.columns);
    m.attr("STEP_COLUMNS") = tables;
    nb::class_<BoundSteps>(m, "Steps")
        .def(nb::init<std::size_t>(), "count"_a)
        .def("append", &BoundSteps::append, "kind"_a, "columns"_a, "chains"_a = nb::make_tuple());
}

}  // namespace stoker
