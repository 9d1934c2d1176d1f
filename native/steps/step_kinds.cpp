#include "steps/step_kinds.h"

namespace stoker {
namespace {

// Function-local, so that it exists before the first step is registered.
std::vector<StepKind>& kinds() {
    static std::vector<StepKind> all;
    return all;
}

}  // namespace

RegisteredStep::RegisteredStep(const StepKind& kind) { kinds().push_back(kind); }

const std::vector<StepKind>& step_kinds() { return kinds(); }

}  // namespace stoker
