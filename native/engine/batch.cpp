#include "engine/batch.h"

#include <algorithm>
#include <new>

namespace stoker {

bool Batch::claim(std::size_t& first, std::size_t& end) {
    first = next_.fetch_add(work_.share, std::memory_order_relaxed);
    end = std::min(first + work_.share, work_.units());
    return first < end;
}

void Batch::finish(std::size_t i, Status status, const char* message) {
    finish_stores();
    work_.status[i] = static_cast<std::uint8_t>(status);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status != Status::ok) keep_reason(i, message);
    if (++completed_ == work_.count) finished_.notify_all();
}

void Batch::keep_reason(std::size_t i, const char* message) noexcept {
    try {
        reasons_.emplace_back(i, message);
    } catch (const std::bad_alloc&) {  // the sample has a status without a reason
    }
}

void Batch::cancel() {
    const std::vector<std::size_t>& parts = work_.composition.first;
    for (std::size_t first, end; claim(first, end);) {
        if (!parts.empty()) first = parts[first], end = parts[end];
        for (std::size_t i = first; i < end; ++i)
            finish(i, Status::read_error, "the engine was closed before it was read");
    }
}

void Batch::wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [&] { return completed_ == work_.count; });
}

bool Batch::done() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return completed_ == work_.count;
}

std::string Batch::reason(std::size_t i) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [position, text] : reasons_)
        if (position == i) return text;
    return {};
}

}  // namespace stoker
