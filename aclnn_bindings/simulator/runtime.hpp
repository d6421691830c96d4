// Process state of the simulated runtime: devices, contexts, streams, events, system parameters.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "handles.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace gmmfr {

class SystemParameters {
public:
    void set(int option, int64_t value);
    // False when the option was never set.
    bool get(int option, int64_t* value) const;

private:
    mutable std::mutex mutex_;
    std::map<int, int64_t> values_;
};

class Context {
public:
    Context(int32_t device, bool primary) : device_(device), primary_(primary) {}

    int32_t device() const { return device_; }
    bool primary() const { return primary_; }
    std::shared_ptr<Stream> default_stream();
    SystemParameters parameters;

private:
    const int32_t device_;
    const bool primary_;
    std::mutex mutex_;
    std::shared_ptr<Stream> stream_;
};

struct Runtime {
    Registry<Context> contexts{HandleKind::context};
    Registry<Stream> streams{HandleKind::stream};
    Registry<Event> events{HandleKind::event};
    SystemParameters parameters;
    std::atomic<uint64_t> kernels_run{0};

    Failure initialize();
    // Gives one count back; *left tells how many remain.
    Failure finalize(uint64_t* left);
    bool initialized() const;

    Failure set_device(int32_t device);
    Failure reset_device(int32_t device);
    uint64_t primary_contexts() const;

private:
    mutable std::mutex mutex_;
    uint64_t init_count_ = 0;
    bool ever_finalized_ = false;
    struct Primary {
        aclrtContext handle = nullptr;
        uint64_t users = 0;
    };
    std::map<int32_t, Primary> primaries_;
};

Runtime& runtime();

uint32_t device_count();
Failure check_device(int32_t device);

// The calling thread's context, NULL when it has none (or its context was destroyed).
std::shared_ptr<Context> current_context();
aclrtContext current_context_handle();
void set_current_context(aclrtContext handle);
Failure no_context();

// The stream of a handle; NULL means the current context's default stream.
Failure find_stream(aclrtStream handle, std::shared_ptr<Stream>* stream);

}  // namespace gmmfr
