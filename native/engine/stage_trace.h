// What the threads of the pools do with each sample, for traces (`_native.trace_start` and `trace_take`) and for
// profilers (`_native.set_range_functions`).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace stoker {

// A stage of one sample on one thread; times in nanoseconds of a clock that never goes back. They are whole numbers,
// so that spans that follow each other never overlap.
struct StageSpan {
    enum Stage : std::uint8_t { read, decode, augment };
    std::int64_t thread;
    Stage stage;
    std::int64_t began, end;
};

class StageTrace {
  public:
    static bool runs() { return running_.load(std::memory_order_relaxed); }
    static std::int64_t now() {
        return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    }
    static void start();
    static void add(StageSpan::Stage stage, std::int64_t began, std::int64_t end);
    // Ends the trace and returns its spans, at most a million.
    static std::vector<StageSpan> take();

  private:
    static std::atomic<bool> running_;
};

// Functions that begin and end a range of the calling thread, as NVTX's nvtxRangePushA and nvtxRangePop.
struct RangeFunctions {
    int (*push)(const char* name);
    int (*pop)();
};

// Shows a stage to profilers as long as the object lives, where Python has set functions for this.
class StageRange {
  public:
    explicit StageRange(const char* name) : functions_(set_.load(std::memory_order_acquire)) {
        if (functions_ != nullptr) functions_->push(name);
    }
    ~StageRange() {
        if (functions_ != nullptr) functions_->pop();
    }
    StageRange(const StageRange&) = delete;
    StageRange& operator=(const StageRange&) = delete;

    // The functions must stay for as long as the process runs; null shows nothing from now on.
    static void set(const RangeFunctions* functions) { set_.store(functions, std::memory_order_release); }

  private:
    const RangeFunctions* functions_;
    static std::atomic<const RangeFunctions*> set_;
};

}  // namespace stoker
