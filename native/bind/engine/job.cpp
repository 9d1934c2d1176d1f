#include "bind/engine/job.h"

#include <stdexcept>
#include <utility>

#include "engine/pool.h"

namespace stoker {

Job::Job(std::shared_ptr<Batch> batch, KeptArrays arrays)
    : arrays_(std::move(arrays)), batch_(std::move(batch)), process_(::getpid()) {}

// Waits with the GIL held, which is safe: no thread of a pool takes the GIL, and a thread in work() keeps the job alive.
// A forked child has no threads to wait for.
Job::~Job() {
    if (batch_ == nullptr || ::getpid() != process_) return;
    batch_->cancel();
    batch_->wait();
}

void Job::work() {
    const nb::gil_scoped_release release;
    thread_local BatchRunner runner;
    runner.run(*batch_);
}

void Job::wait() {
    if (::getpid() != process_)
        throw std::runtime_error("this batch was started in the parent process: make the loader in this one");
    const nb::gil_scoped_release release;
    batch_->wait();
}

}  // namespace stoker
