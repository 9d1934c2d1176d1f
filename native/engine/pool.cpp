#include "engine/pool.h"

#include <unistd.h>

#include <stdexcept>

namespace stoker {

void BatchRunner::run(Batch& batch) {
    for (std::size_t first, end; batch.claim(first, end);) {
        if (batch.work().composition.count() == 0)
            run_samples(batch, first, end);
        else
            for (std::size_t i = first; i < end; ++i) composer_.run(batch, i, runner_);
    }
}

void BatchRunner::run_samples(Batch& batch, std::size_t first, std::size_t end) {
    waiting_.clear();
    for (std::size_t i = first; i < end; ++i) {
        const Outcome outcome = runner_.run(batch.work(), i);
        if (outcome.ok())
            waiting_.push_back(i);
        else
            batch.finish(i, outcome.status, outcome.message);
    }
    const Outcome outcome = runner_.finish_waiting();
    for (const std::size_t i : waiting_) batch.finish(i, outcome.status, outcome.message);
}

Pool::Pool(int threads, std::size_t kept)
    : count_(threads), process_(::getpid()), queue_(new Queue), workers_(new std::vector<std::thread>) {
    try {
        queue_->kept = std::make_shared<KeptImages>(kept);
        for (int i = 0; i < threads; ++i) workers_->emplace_back([queue = queue_] { work(*queue); });
    } catch (...) {
        close();
        delete workers_;
        delete queue_;
        throw;
    }
}

Pool::~Pool() {
    // In a forked child the threads do not exist, and the mutex may stay locked. So nothing is freed.
    if (::getpid() != process_) return;
    close();
    delete workers_;
    delete queue_;
}

std::shared_ptr<Batch> Pool::Queue::front() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return closed || !batches.empty(); });
    return batches.empty() ? nullptr : batches.front();
}

void Pool::Queue::drop(const std::shared_ptr<Batch>& batch) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!batches.empty() && batches.front() == batch) batches.pop_front();
}

void Pool::work(Queue& queue) {
    BatchRunner runner;
    while (const std::shared_ptr<Batch> batch = queue.front()) {
        runner.run(*batch);
        queue.drop(batch);
    }
}

void Pool::submit(const std::shared_ptr<Batch>& batch) {
    if (::getpid() != process_)
        throw std::runtime_error(
            "this engine's threads belong to the parent process and do not exist after fork: make the loader "
            "in the child process, or start it with the spawn method");
    const std::lock_guard<std::mutex> lock(queue_->mutex);
    if (queue_->closed) throw std::runtime_error("the engine is closed");
    queue_->batches.push_back(batch);
    queue_->changed.notify_all();
}

void Pool::close() {
    if (::getpid() != process_) return;
    std::deque<std::shared_ptr<Batch>> left;
    {
        const std::lock_guard<std::mutex> lock(queue_->mutex);
        queue_->closed = true;
        left.swap(queue_->batches);
        queue_->changed.notify_all();
    }
    for (const auto& batch : left) batch->cancel();
    const std::lock_guard<std::mutex> lock(queue_->joining);  // a thread may be joined once
    for (std::thread& worker : *workers_)
        if (worker.joinable()) worker.join();
}

}  // namespace stoker
