#include "engine/batch.h"

#include <new>

namespace stoker {

bool Batch::claim(std::size_t& unit) {
    unit = next_.fetch_add(1, std::memory_order_relaxed);
    return unit < work_.units();
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
    } catch (const std::bad_alloc&) {  // the status alone must tell it
    }
}

void Batch::cancel() {
    const std::vector<std::size_t>& first = work_.composition.first;
    for (std::size_t unit; claim(unit);) {
        const std::size_t begin = first.empty() ? unit : first[unit], end = first.empty() ? unit + 1 : first[unit + 1];
        for (std::size_t i = begin; i < end; ++i)
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
