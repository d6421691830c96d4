// A stream: work strictly in order, on its own thread or on one that waits for it. An event: the last point of a stream
// that was recorded into it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "handles.hpp"

namespace gmmfr {

using Clock = std::chrono::steady_clock;

// A timeout in milliseconds as callers give it: negative waits without limit.
struct Deadline {
    explicit Deadline(int32_t milliseconds)
        : limited(milliseconds >= 0), at(Clock::now() + std::chrono::milliseconds(limited ? milliseconds : 0)) {}

    template <class Condition>
    bool wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Condition condition) const {
        if (limited) return changed.wait_until(lock, at, condition);
        changed.wait(lock, condition);
        return true;
    }

    bool limited;
    Clock::time_point at;
};

// For each stream, by its id, the number of its latest work that is certainly over.
using VectorClock = std::map<uint64_t, uint64_t>;

// One passage of a stream; shared by the event, the stream and whoever waits.
class Mark {
public:
    void reach();
    bool reached() const;
    bool wait(const Deadline& deadline) const;
    Clock::time_point time() const;

    VectorClock clock;  // kept by the checking device, under its own lock

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool reached_ = false;
    Clock::time_point time_;
};

struct Task {
    std::function<Failure()> run;
    bool after_failure = false;  // marks and waits happen even when the work before them failed
};

class Stream {
public:
    explicit Stream(int32_t device);
    ~Stream() { close(true); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // False after close.
    bool submit(Task task);
    // Waits for what was submitted before; gives and clears the first failure since the last synchronise.
    Failure synchronize(int32_t timeout);
    bool idle() const;
    // Ends the thread: after the work that is queued, or dropping it.
    void close(bool drop_queued);
    int32_t device() const { return device_; }
    uint64_t id() const { return id_; }  // never used again for another stream

private:
    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<Task> queue;
        uint64_t submitted = 0;
        uint64_t completed = 0;
        bool started = false;
        bool running = false;
        bool closing = false;
        bool stopped = false;
        Failure failed;

        bool ready() const { return !running && !queue.empty(); }
    };

    static void work(std::shared_ptr<State> state);
    static void run_next(State& state, std::unique_lock<std::mutex>& lock);

    std::shared_ptr<State> state_;
    const int32_t device_;
    const uint64_t id_;
};

class Event {
public:
    void record(std::shared_ptr<Mark> mark);
    std::shared_ptr<Mark> last() const;

private:
    mutable std::mutex mutex_;
    std::shared_ptr<Mark> last_;
};

}  // namespace gmmfr
