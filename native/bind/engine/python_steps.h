// The last steps of images, by a function of Python.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "bind/engine/buffer_pool.h"
#include "engine/last_steps/last_steps.h"

namespace stoker {

// Calls `function(row, pixels)` with an integer and (H, W, 3) uint8; or, if it takes several images, with (M,) int64 and
// (M, H, W, 3) uint8. It returns pixels of the same shape. The calling thread must be one of Python's: the interpreter
// waits for these when it ends.
class PythonSteps final : public LastSteps {
  public:
    // The pixels lie in memory of the pool.
    PythonSteps(const Vector<bool>& where, nb::callable function, BufferPool& memory, bool takes_several);
    ~PythonSteps() override;

    std::size_t count() const { return where_.size(); }
    bool applies(std::size_t i) const override { return where_[i]; }
    bool takes_several() const override { return takes_several_; }
    void run(std::span<const std::size_t> rows, std::span<PlanarImage> images) const override;

  private:
    std::vector<bool> where_;
    nb::object function_;
    std::shared_ptr<BufferPool> memory_;
    bool takes_several_;
};

}  // namespace stoker
