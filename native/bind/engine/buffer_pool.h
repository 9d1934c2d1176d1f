// NumPy arrays in the memory of a pool.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "bind/bind.h"
#include "engine/buffer_pool.h"

namespace stoker {

// Memory of a pool, with undefined contents, which the destructor gives back. No method needs the GIL.
class Lease {
  public:
    Lease(std::shared_ptr<BufferPool> pool, std::size_t bytes)
        : pool_(std::move(pool)), memory_(pool_->take(bytes)), bytes_(bytes) {}
    ~Lease() { pool_->give_back(memory_, bytes_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    void* memory() const { return memory_; }

  private:
    std::shared_ptr<BufferPool> pool_;
    void* memory_;
    std::size_t bytes_;
};

// Returns an array that holds the memory until its last reference is gone. Needs the GIL.
nb::ndarray<nb::numpy> array_of(std::unique_ptr<Lease> lease, const std::vector<std::size_t>& shape, nb::dlpack::dtype type);

}  // namespace stoker
