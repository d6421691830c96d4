// Worker threads that kernels share. Work is numbered; who does which number never changes a result.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace gmmfr {

class ThreadPool {
public:
    static ThreadPool& shared();

    // Calls work(0) .. work(count - 1), each once, from the caller and the workers; returns when all are done.
    // The first exception that work throws comes out here, after the others are done. Work that takes no more than
    // some ten thousand nanoseconds in all, as the caller guesses, is not worth waking a worker for.
    void run(int64_t count, int64_t nanoseconds, const std::function<void(int64_t)>& work);
    uint32_t threads() const { return threads_; }

private:
    struct Job;

    explicit ThreadPool(uint32_t threads) : threads_(threads) {}
    void serve();
    void start_workers();

    const uint32_t threads_;
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::vector<std::shared_ptr<Job>> jobs_;
    bool started_ = false;
};

}  // namespace gmmfr
