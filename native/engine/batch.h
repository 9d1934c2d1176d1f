// A batch in flight: its work, and the progress of its samples.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "decode/status.h"
#include "engine/batch_work.h"

namespace stoker {

// Several threads work on a batch at once; all methods are safe to call from any thread.
class Batch {
  public:
    explicit Batch(BatchWork work) : work_(std::move(work)) {}
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    const BatchWork& work() const { return work_; }

    // Assigns the next units of work, `first` to `end`, to the calling thread: samples, or images with several samples.
    // Returns false if there are none.
    bool claim(std::size_t& first, std::size_t& end);
    void finish(std::size_t i, Status status, const char* message);
    // Finishes all samples that no thread has claimed, with an error.
    void cancel();
    void wait();
    bool done();
    std::string reason(std::size_t i);

  private:
    void keep_reason(std::size_t i, const char* message) noexcept;

    BatchWork work_;
    std::atomic<std::size_t> next_{0};
    std::mutex mutex_;
    std::condition_variable finished_;
    std::size_t completed_ = 0;
    std::vector<std::pair<std::size_t, std::string>> reasons_;
};

}  // namespace stoker
