// The list of all kinds of steps.
#pragma once

#include <span>

#include "steps/step.h"

namespace stoker {

std::span<const StepKind* const> step_kinds();

}  // namespace stoker
