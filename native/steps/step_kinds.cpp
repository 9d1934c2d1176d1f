#include "steps/step_kinds.h"

#include <algorithm>
#include <string_view>

namespace stoker {
namespace {

// Function-local, so that it exists before the first step is registered.
std::vector<StepKind>& kinds() {
    static std::vector<StepKind> all;
    return all;
}

}  // namespace

// Sorted by name, because the order of files is left to the linker.
RegisteredStep::RegisteredStep(const StepKind& kind) {
    const auto before = [](const StepKind& a, const StepKind& b) { return std::string_view(a.name) < b.name; };
    kinds().insert(std::upper_bound(kinds().begin(), kinds().end(), kind, before), kind);
}

const std::vector<StepKind>& step_kinds() { return kinds(); }

}  // namespace stoker
