// Memory of batches, used again when nobody holds it any more.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace stoker {

// A fresh batch of 38 MB costs ten thousand page faults, more than writing it does: blocks come back here
// when the last array over them is gone. The arena may be gone by then.
class Arena : public std::enable_shared_from_this<Arena> {
  public:
    // Keeps at most `keep` unused blocks.
    explicit Arena(std::size_t keep) : keep_(keep) {}
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Aligned to 64 bytes, with the contents of its former life. Throws std::bad_alloc.
    void* take(std::size_t bytes);
    void give_back(void* block, std::size_t bytes) noexcept;

  private:
    struct Block {
        void* memory;
        std::size_t bytes;
    };
    std::size_t keep_;
    std::mutex mutex_;
    std::vector<Block> unused_;
};

}  // namespace stoker
