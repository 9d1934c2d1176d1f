// A batch in flight, for Python.
#pragma once

#include <memory>
#include <string>

#include <unistd.h>

#include "bind/columns.h"
#include "engine/batch.h"

namespace stoker {

// Keeps the arrays of the batch alive until no thread works on it.
class Job {
  public:
    Job(std::shared_ptr<Batch> batch, KeptArrays arrays);
    Job(Job&&) = default;
    ~Job();

    // Executes samples on the calling thread, until all are begun.
    void work();
    // Finishes all samples that no thread has begun, with an error.
    void cancel() { batch_->cancel(); }
    void wait();
    bool done() { return batch_->done(); }
    std::string reason(std::size_t i) { return batch_->reason(i); }

  private:
    KeptArrays arrays_;
    std::shared_ptr<Batch> batch_;
    pid_t process_;
};

}  // namespace stoker
