// The list of all kinds of steps, from which the binding makes them by name. The file of a step adds its kind by a
// RegisteredStep.
#pragma once

#include <vector>

#include "steps/step.h"

namespace stoker {

// Adds a kind to the list when the module is loaded.
class RegisteredStep {
  public:
    explicit RegisteredStep(const StepKind& kind);
};

const std::vector<StepKind>& step_kinds();

}  // namespace stoker
