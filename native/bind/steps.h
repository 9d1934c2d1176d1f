// Steps as Python makes them.
#pragma once

#include <memory>
#include <utility>

#include "bind/bind.h"
#include "steps/steps.h"

namespace stoker {

// Steps of a batch of `count` samples, and the arrays that they read.
class BoundSteps {
  public:
    explicit BoundSteps(std::size_t count) : count_(count) {}
    BoundSteps(const BoundSteps&) = delete;
    BoundSteps& operator=(const BoundSteps&) = delete;

    std::size_t count() const { return count_; }
    const nb::list& arrays() const { return arrays_; }

    // Takes a step after looking at the lengths of its columns, which it keeps alive.
    template <class... Columns>
    void append(std::unique_ptr<Step> step, const Columns&... columns) {
        require_open();
        for (const std::size_t rows : {columns.shape(0)...})
            if (rows != count_) throw nb::value_error("all columns of a step must have a row a sample");
        (arrays_.append(columns), ...);
        steps_.push_back(std::move(step));
    }
    void keep(const nb::list& arrays) { arrays_.append(arrays); }
    // For a batch or a mix, once: nobody may change what another thread executes.
    Steps take() {
        require_open();
        taken_ = true;
        return std::move(steps_);
    }

  private:
    void require_open() const {
        if (taken_) throw nb::value_error("these steps belong to a batch or a mix by now: make new ones");
    }

    std::size_t count_;
    Steps steps_;
    nb::list arrays_;
    bool taken_ = false;
};

}  // namespace stoker
