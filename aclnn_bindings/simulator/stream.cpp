#include "stream.hpp"

#include <atomic>
#include <cfenv>
#include <thread>

#include "ordering.hpp"

namespace gmmfr {

void Mark::reach() {
    std::lock_guard<std::mutex> lock(mutex_);
    reached_ = true;
    time_ = Clock::now();
    changed_.notify_all();
}

bool Mark::reached() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return reached_;
}

bool Mark::wait(const Deadline& deadline) const {
    std::unique_lock<std::mutex> lock(mutex_);
    return deadline.wait(changed_, lock, [this] { return reached_; });
}

Clock::time_point Mark::time() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return time_;
}

Stream::Stream(int32_t device)
    : state_(std::make_shared<State>()), device_(device), id_([] {
          static std::atomic<uint64_t> made{0};
          return made.fetch_add(1) + 1;
      }()) {}

bool Stream::submit(Task task) {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->closing) return false;
    if (!state_->started) {
        std::thread(work, state_).detach();
        state_->started = true;
    }
    state_->queue.push_back(std::move(task));
    state_->submitted += 1;
    state_->changed.notify_all();
    return true;
}

Failure Stream::synchronize(int32_t timeout) {
    const Deadline deadline(timeout);
    std::unique_lock<std::mutex> lock(state_->mutex);
    State& state = *state_;
    const uint64_t target = state.submitted;
    if (!deadline.wait(state.changed, lock, [&] { return state.completed >= target; })) {
        return failure(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "the stream was not done within ", timeout, " ms");
    }
    return std::exchange(state.failed, Failure{});
}

bool Stream::idle() const {
    std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->completed == state_->submitted;
}

void Stream::close(bool drop_queued) {
    std::unique_lock<std::mutex> lock(state_->mutex);
    State& state = *state_;
    state.closing = true;
    if (drop_queued) {
        // marks must still be reached: somebody may wait for them
        for (Task& task : state.queue) {
            if (!task.after_failure) task.run = nullptr;
        }
    }
    state.changed.notify_all();
    state.changed.wait(lock, [&] { return !state.started || state.stopped; });
    lock.unlock();
    order_end(*this);
}

void Stream::work(std::shared_ptr<State> state) {
    std::fesetenv(FE_DFL_ENV);  // a new thread inherits its maker's rounding and flush-to-zero modes
    std::unique_lock<std::mutex> lock(state->mutex);
    while (true) {
        state->changed.wait(lock, [&] { return state->closing || !state->queue.empty(); });
        if (state->queue.empty()) break;
        Task task = std::move(state->queue.front());
        state->queue.pop_front();
        const bool runs = task.run && (task.after_failure || state->failed.code == 0);
        lock.unlock();
        Failure failed;
        if (runs) {
            try {
                failed = task.run();
            } catch (const std::bad_alloc&) {
                failed = failure(ACL_ERROR_RT_MEMORY_ALLOCATION, "the host has no memory left for this work");
            } catch (const std::exception& error) {
                failed = failure(ACL_ERROR_RT_INTERNAL_ERROR, "unexpected failure on the stream: ", error.what());
            }
        }
        task = Task{};  // what the work held goes before it counts as done
        lock.lock();
        if (failed && state->failed.code == 0) state->failed = std::move(failed);
        state->completed += 1;
        state->changed.notify_all();
    }
    state->stopped = true;
    state->changed.notify_all();
}

void Event::record(std::shared_ptr<Mark> mark) {
    std::lock_guard<std::mutex> lock(mutex_);
    last_ = std::move(mark);
}

std::shared_ptr<Mark> Event::last() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_;
}

}  // namespace gmmfr
