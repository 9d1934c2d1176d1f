// A pool of buffers for batches, which are used again.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace stoker {

// A new buffer of 38 MB costs ten thousand page faults, which take longer than writing it. So a buffer comes
// back here after the last array that uses it is gone. Arrays may outlive the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
  public:
    // Keeps at most `keep` unused buffers.
    explicit BufferPool(std::size_t keep) : keep_(keep) {}
    ~BufferPool();
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // Keeps at most `keep` unused buffers from now on, if that is more than before.
    void keep_at_least(std::size_t keep);

    // Returns a buffer that is aligned to 64 bytes, with undefined contents. Throws std::bad_alloc.
    void* take(std::size_t bytes);
    void give_back(void* memory, std::size_t bytes) noexcept;

  private:
    struct Buffer {
        void* memory;
        std::size_t bytes;
    };
    std::size_t keep_;
    std::mutex mutex_;
    std::vector<Buffer> unused_;
};

}  // namespace stoker
