#include "entry.hpp"

#include <pthread.h>

#include <atomic>

#include "faults.hpp"

namespace gmmfr {
namespace {

thread_local std::string pending_message;
thread_local std::string taken_message;
thread_local bool has_message = false;
thread_local Origin current;

std::atomic<uint64_t> calls{0};

std::atomic<bool> used{false};
std::atomic<bool> forked_after_use{false};

void note_fork() {
    if (used.load()) forked_after_use.store(true);
}

const char* message_prefix(int code) {
    switch (code / 100000) {
        case 1: return "EZ1001";
        case 3: return "EZ9903";
        default: return "EZ9999";
    }
}

void watch_forks() {
    static const int registered = pthread_atfork(nullptr, nullptr, note_fork);
    (void)registered;
    used.store(true, std::memory_order_relaxed);
}

}  // namespace

int report(int code, const std::string& message) {
    pending_message = text(message_prefix(code), ": ", current.function, ": ", message);
    has_message = true;
    return code;
}

const char* take_message() {
    if (!has_message) return nullptr;
    taken_message.swap(pending_message);
    has_message = false;
    return taken_message.c_str();
}

int enter(const char* function, Faults faults) {
    current = {function, calls.fetch_add(1, std::memory_order_relaxed) + 1};
    watch_forks();
    if (forked_after_use.load(std::memory_order_relaxed)) {
        return fail(ACL_ERROR_UNINITIALIZE,
                    "this process was forked after the runtime was used; its device threads exist in the parent "
                    "only. Start the child with spawn (exec) and call aclInit there");
    }
    if (faults == Faults::inside) return 0;
    const int code = injected_fault(function);
    return code == 0 ? 0 : fail(code, kFaultText);
}

Origin current_call() {
    return current;
}

std::ostream& operator<<(std::ostream& stream, const Origin& origin) {
    return stream << origin.function << " (call " << origin.number << " of the process)";
}

}  // namespace gmmfr
