// The list of all kinds of steps, from which the binding makes them by name.
#pragma once

#include <span>

#include "steps/step.h"

namespace stoker {

std::span<const StepKind* const> step_kinds();

}  // namespace stoker
