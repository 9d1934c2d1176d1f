// The steps of a batch, which Python makes and a batch takes.
#pragma once

#include <string>
#include <utility>

#include "bind/columns.h"
#include "steps/step.h"

namespace stoker {

// The steps of a batch of `count` samples, and the arrays that they read.
class BoundSteps {
  public:
    explicit BoundSteps(std::size_t count) : count_(count) {}
    BoundSteps(const BoundSteps&) = delete;
    BoundSteps& operator=(const BoundSteps&) = delete;

    std::size_t count() const { return count_; }
    // Appends a step of a kind, made of arrays by name. The step takes the steps of its chains.
    void append(const std::string& kind, const nb::dict& columns, const std::vector<BoundSteps*>& chains);
    // Moves the steps and their arrays to a batch or a weighted sum. This is possible once, because other
    // threads execute the steps from then on.
    Steps take(KeptArrays& kept);

  private:
    void require_open() const;

    std::size_t count_;
    Steps steps_;
    KeptArrays kept_;
    bool taken_ = false;
};

}  // namespace stoker
