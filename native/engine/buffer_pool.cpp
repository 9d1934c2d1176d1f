#include "engine/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace stoker {
namespace {

constexpr std::size_t kHugePage = 2 << 20;

void* allocate(std::size_t bytes) {
    if (bytes > PTRDIFF_MAX) throw std::bad_alloc();  // rounding up might overflow
    const std::size_t alignment = bytes < 2 * kHugePage ? 64 : kHugePage;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
    if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    if (alignment == kHugePage) ::madvise(memory, rounded, MADV_HUGEPAGE);
#endif
    return memory;
}

}  // namespace

BufferPool::~BufferPool() {
    for (const Buffer& buffer : unused_) std::free(buffer.memory);
}

void BufferPool::keep_at_least(std::size_t keep) {
    const std::lock_guard<std::mutex> lock(mutex_);
    keep_ = std::max(keep_, keep);
}

void* BufferPool::take(std::size_t bytes) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (auto it = unused_.rbegin(); it != unused_.rend(); ++it) {
            if (it->bytes != bytes) continue;
            void* memory = it->memory;
            unused_.erase(std::next(it).base());
            return memory;
        }
    }
    return allocate(bytes);
}

void BufferPool::give_back(void* memory, std::size_t bytes) noexcept {
    Buffer evicted{memory, bytes};
    try {
        const std::lock_guard<std::mutex> lock(mutex_);
        unused_.push_back(evicted);
        evicted.memory = nullptr;
        if (unused_.size() > keep_) {  // the oldest, whose size is probably no longer used
            evicted = unused_.front();
            unused_.erase(unused_.begin());
        }
    } catch (const std::bad_alloc&) {  // the buffer is freed below
    }
    std::free(evicted.memory);
}

}  // namespace stoker
