// The threads that execute batches, in the order of submission.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "engine/batch.h"
#include "engine/composition/composer.h"
#include "engine/composition/kept_images.h"
#include "engine/sample_runner.h"

namespace stoker {

// The work of one thread, on one batch after the other.
class BatchRunner {
  public:
    // Executes units of a batch until none is left.
    void run(Batch& batch);

  private:
    void run_samples(Batch& batch, std::size_t first, std::size_t end);

    SampleRunner runner_;
    Composer composer_;
    std::vector<std::size_t> waiting_;  // samples whose images wait for others
};

class Pool {
  public:
    // Samples of images that are made of several samples are decoded once if they are among the last `kept` ones.
    Pool(int threads, std::size_t kept);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int threads() const { return count_; }
    // The samples that were kept, for BatchWork.
    const std::shared_ptr<KeptImages>& kept() const { return queue_->kept; }
    // Throws std::runtime_error if the pool is closed, or belongs to the parent of this process.
    void submit(const std::shared_ptr<Batch>& batch);
    // Cancels all samples that no thread has begun, waits for the others, and ends the threads. Several threads may
    // call it at once, and more than once: each call returns when the threads have ended.
    void close();

  private:
    // A separate object, which a forked child leaves alone: the child has no threads, but a copy of the pool.
    struct Queue {
        std::shared_ptr<KeptImages> kept;
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
