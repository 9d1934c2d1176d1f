// The steps of a batch, as Python makes them.
#pragma once

#include <string>
#include <utility>

#include "bind/columns.h"
#include "steps/step.h"

namespace stoker {

// Steps of a batch of `count` samples, and the arrays that they read.
class BoundSteps {
  public:
    explicit BoundSteps(std::size_t count) : count_(count) {}
    BoundSteps(const BoundSteps&) = delete;
    BoundSteps& operator=(const BoundSteps&) = delete;

    std::size_t count() const { return count_; }
    // Appends a step of a kind, made of arrays by name, and takes the steps of its chains.
    void append(const std::string& kind, const nb::dict& columns, const std::vector<BoundSteps*>& chains);
    // Hands over the steps and their arrays, to a batch or a weighted sum, once: another thread executes them.
    Steps take(KeptArrays& kept);

  private:
    void require_open() const;

    std::size_t count_;
    Steps steps_;
    KeptArrays kept_;
    bool taken_ = false;
};

}  // namespace stoker
