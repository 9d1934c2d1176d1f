// Threads that execute batches, first come first served.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "engine/batch.h"

namespace stoker {

class Pool {
  public:
    explicit Pool(int threads);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int threads() const { return count_; }
    // Throws std::runtime_error where the pool is closed or was made in the parent of this process.
    void submit(const std::shared_ptr<Batch>& batch);
    // Cancels the batches that no thread has begun, and waits for the others. Safe to call twice, or from several
    // threads at once: each call returns when all threads have ended.
    void close();

  private:
    // Owned by the threads too, so that a forked child, which has none, can let go of it unharmed.
    struct Queue {
        std::mutex mutex;
        std::mutex joining;  // held while a call of close() joins the threads
        std::condition_variable changed;
        std::deque<std::shared_ptr<Batch>> batches;
        bool closed = false;

        std::shared_ptr<Batch> front();
        void drop(const std::shared_ptr<Batch>& batch);
    };
    static void work(Queue& queue);

    int count_;
    pid_t process_;
    Queue* queue_;
    std::vector<std::thread>* workers_;
};

}  // namespace stoker
