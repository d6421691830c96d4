#include "thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

namespace gmmfr {
namespace {

constexpr unsigned long kMostThreads = 1024;
constexpr int64_t kWorthWaking = 30'000;

uint32_t threads_from_environment() {
    const uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
    const char* words = std::getenv("GMMFR_SIM_THREADS");
    if (words == nullptr || *words == '\0') return cores;
    char* end = nullptr;
    const unsigned long count = std::strtoul(words, &end, 10);
    if (*end != '\0' || count == 0 || count > kMostThreads) {
        std::fprintf(stderr, "GMMFR_SIM_THREADS: expected 1 to %lu, got \"%s\"\n", kMostThreads, words);
        std::abort();
    }
    return std::min(cores, static_cast<uint32_t>(count));
}

}  // namespace

struct ThreadPool::Job {
    explicit Job(int64_t total, const std::function<void(int64_t)>& body) : count(total), work(&body) {}

    // Takes numbers until none is left.
    void help() {
        int64_t done = 0;
        for (int64_t at = next.fetch_add(1); at < count; at = next.fetch_add(1)) {
            call(at);
            ++done;
        }
        if (done == 0) return;
        std::lock_guard<std::mutex> lock(mutex);
        finished += done;
        if (finished == count) all_done.notify_all();
    }

    void call(int64_t at) {
        try {
            (*work)(at);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex);
            if (!thrown) thrown = std::current_exception();
        }
    }

    void wait() {
        std::unique_lock<std::mutex> lock(mutex);
        all_done.wait(lock, [this] { return finished == count; });
        if (thrown) std::rethrow_exception(thrown);
    }

    const int64_t count;
    const std::function<void(int64_t)>* work;
    std::atomic<int64_t> next{0};
    std::mutex mutex;
    std::condition_variable all_done;
    int64_t finished = 0;
    std::exception_ptr thrown;
};

ThreadPool& ThreadPool::shared() {
    static auto* pool = new ThreadPool(threads_from_environment());  // its threads outlive static destruction
    return *pool;
}

void ThreadPool::start_workers() {
    if (started_) return;
    started_ = true;
    for (uint32_t i = 1; i < threads_; ++i) std::thread([this] { serve(); }).detach();
}

void ThreadPool::run(int64_t count, int64_t nanoseconds, const std::function<void(int64_t)>& work) {
    if (count <= 1 || threads_ == 1 || nanoseconds < kWorthWaking) {
        for (int64_t at = 0; at < count; ++at) work(at);
        return;
    }
    const auto job = std::make_shared<Job>(count, work);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        start_workers();
        jobs_.push_back(job);
        arrived_.notify_all();
    }
    job->help();
    {
        std::lock_guard<std::mutex> lock(mutex_);
        jobs_.erase(std::find(jobs_.begin(), jobs_.end(), job));
    }
    job->wait();
}

void ThreadPool::serve() {
    std::fesetenv(FE_DFL_ENV);
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
        std::shared_ptr<Job> job;
        arrived_.wait(lock, [&] {
            for (const auto& waiting : jobs_) {
                if (waiting->next.load() < waiting->count) {
                    job = waiting;
                    return true;
                }
            }
            return false;
        });
        lock.unlock();
        job->help();
        job.reset();
        lock.lock();
    }
}

}  // namespace gmmfr
