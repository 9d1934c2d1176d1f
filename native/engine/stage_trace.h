// What the threads of the pools do with each sample, while a trace runs: `_native.trace_start` and `trace_take`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace stoker {

// A stage of one sample on one thread; times in seconds of a clock that never goes back.
struct StageSpan {
    enum Stage : std::uint8_t { read, decode, augment };
    std::int64_t thread;
    Stage stage;
    double began, seconds;
};

class StageTrace {
  public:
    static bool runs() { return running_.load(std::memory_order_relaxed); }
    static double now() {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    }
    static void start();
    static void add(StageSpan::Stage stage, double began, double seconds);
    // Ends the trace and returns its spans, at most a million.
    static std::vector<StageSpan> take();

  private:
    static std::atomic<bool> running_;
};

}  // namespace stoker
