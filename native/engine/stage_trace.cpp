#include "engine/stage_trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace stoker {
namespace {

constexpr std::size_t kMostSpans = 1'000'000;

struct Spans {
    std::mutex mutex;
    std::vector<StageSpan> values;
};

Spans& spans() {
    static Spans instance;
    return instance;
}

std::int64_t thread_number() {
#ifdef __linux__
    thread_local const auto number = static_cast<std::int64_t>(::syscall(SYS_gettid));
#else
    thread_local const char here = 0;
    const auto number = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&here));
#endif
    return number;
}

}  // namespace

std::atomic<bool> StageTrace::running_{false};
std::atomic<const RangeFunctions*> StageRange::set_{nullptr};

void StageTrace::start() {
    const std::lock_guard<std::mutex> lock(spans().mutex);
    spans().values.clear();
    running_ = true;
}

void StageTrace::add(StageSpan::Stage stage, std::int64_t began, std::int64_t end) {
    const std::lock_guard<std::mutex> lock(spans().mutex);
    if (spans().values.size() < kMostSpans) spans().values.push_back({thread_number(), stage, began, end});
}

std::vector<StageSpan> StageTrace::take() {
    running_ = false;
    const std::lock_guard<std::mutex> lock(spans().mutex);
    return std::exchange(spans().values, {});
}

}  // namespace stoker
