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
    const auto done = [&] { return state.completed >= target; };
    if (deadline.limited) {
        if (!deadline.wait(state.changed, lock, done)) {
            return failure(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "the stream was not done within ", timeout, " ms");
        }
        return std::exchange(state.failed, Failure{});
    }
    // Who waits without limit does the work: two changes of threads take longer than a small call.
    while (!done()) {
        if (state.ready()) {
            run_next(state, lock);
        } else {
            state.changed.wait(lock, [&] { return done() || state.ready(); });
        }
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

// Runs the work at the head of the queue in the floating-point environment of a new thread.
void Stream::run_next(State& state, std::unique_lock<std::mutex>& lock) {
    Task task = std::move(state.queue.front());
    state.queue.pop_front();
    const bool runs = task.run && (task.after_failure || state.failed.code == 0);
    state.running = true;
    lock.unlock();
    Failure failed;
    if (runs) {
        std::fenv_t callers;
        std::fegetenv(&callers);
        std::fesetenv(FE_DFL_ENV);
        try {
            failed = task.run();
        } catch (const std::bad_alloc&) {
            failed = failure(ACL_ERROR_RT_MEMORY_ALLOCATION, "the host has no memory left for this work");
        } catch (const std::exception& error) {
            failed = failure(ACL_ERROR_RT_INTERNAL_ERROR, "unexpected failure on the stream: ", error.what());
        }
        std::fesetenv(&callers);
    }
    task = Task{};  // what the work held goes before it counts as done
    lock.lock();
    state.running = false;
    if (failed && state.failed.code == 0) state.failed = std::move(failed);
    state.completed += 1;
    state.changed.notify_all();
}

void Stream::work(std::shared_ptr<State> state) {
    std::unique_lock<std::mutex> lock(state->mutex);
    while (true) {
        state->changed.wait(lock, [&] { return state->ready() || (state->closing && !state->running); });
        if (!state->ready()) break;
        run_next(*state, lock);
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
