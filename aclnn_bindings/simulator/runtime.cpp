#include "runtime.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace gmmfr {
namespace {

constexpr uint32_t kDefaultDeviceCount = 2;
constexpr uint32_t kMostDevices = 64;

thread_local aclrtContext thread_context = nullptr;

// Stream threads run code of this library: unloading it would pull that away.
void keep_loaded() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&keep_loaded), &info) != 0 && info.dli_fname != nullptr) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

uint32_t devices_from_environment() {
    const char* words = std::getenv("GMMFR_SIM_DEVICES");
    if (words == nullptr || *words == '\0') return kDefaultDeviceCount;
    char* end = nullptr;
    const unsigned long count = std::strtoul(words, &end, 10);
    if (*end != '\0' || count > kMostDevices) {
        std::fprintf(stderr, "GMMFR_SIM_DEVICES: expected 0 to %u, got \"%s\"\n", kMostDevices, words);
        std::abort();
    }
    return static_cast<uint32_t>(count);
}

}  // namespace

void SystemParameters::set(int option, int64_t value) {
    std::lock_guard<std::mutex> lock(mutex_);
    values_[option] = value;
}

bool SystemParameters::get(int option, int64_t* value) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = values_.find(option);
    if (found == values_.end()) return false;
    *value = found->second;
    return true;
}

std::shared_ptr<Stream> Context::default_stream() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!stream_) stream_ = std::make_shared<Stream>(device_);
    return stream_;
}

Failure Runtime::initialize() {
    std::lock_guard<std::mutex> lock(mutex_);
    init_count_ += 1;
    return {};
}

Failure Runtime::finalize(uint64_t* left) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (init_count_ == 0) {
        return ever_finalized_ ? failure(ACL_ERROR_REPEAT_FINALIZE, "the runtime is finalised already")
                               : failure(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    }
    *left = --init_count_;
    ever_finalized_ = init_count_ == 0;
    return {};
}

bool Runtime::initialized() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return init_count_ > 0;
}

Failure Runtime::set_device(int32_t device) {
    if (Failure failed = check_device(device)) return failed;
    std::lock_guard<std::mutex> lock(mutex_);
    if (init_count_ == 0) return failure(ACL_ERROR_UNINITIALIZE, "call aclInit before aclrtSetDevice");
    Primary& primary = primaries_[device];
    if (primary.users == 0) primary.handle = contexts.add(std::make_shared<Context>(device, true));
    primary.users += 1;
    set_current_context(primary.handle);
    return {};
}

Failure Runtime::reset_device(int32_t device) {
    if (Failure failed = check_device(device)) return failed;
    std::shared_ptr<Context> last;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        Primary& primary = primaries_[device];
        if (primary.users == 0) {
            return failure(ACL_ERROR_RT_CONTEXT_NULL, "device ", device, " is not set: aclrtSetDevice comes first");
        }
        primary.users -= 1;
        if (primary.users == 0) last = contexts.remove(primary.handle);
    }
    if (last) last->default_stream()->close(false);
    return {};
}

uint64_t Runtime::primary_contexts() const {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t count = 0;
    for (const auto& [device, primary] : primaries_) count += primary.users > 0 ? 1 : 0;
    return count;
}

Runtime& runtime() {
    // never destroyed: stream threads and handles may outlive static destruction
    static auto* instance = [] {
        keep_loaded();
        return new Runtime;
    }();
    return *instance;
}

uint32_t device_count() {
    static const uint32_t count = devices_from_environment();
    return count;
}

Failure check_device(int32_t device) {
    if (device >= 0 && static_cast<uint32_t>(device) < device_count()) return {};
    return failure(ACL_ERROR_RT_INVALID_DEVICEID, "device ", device, " does not exist; there are ", device_count(),
                   " devices, numbered from 0");
}

std::shared_ptr<Context> current_context() {
    return thread_context == nullptr ? nullptr : runtime().contexts.find(thread_context);
}

aclrtContext current_context_handle() {
    return current_context() ? thread_context : nullptr;
}

void set_current_context(aclrtContext handle) {
    thread_context = handle;
}

Failure no_context() {
    return failure(ACL_ERROR_RT_CONTEXT_NULL,
                   "this thread has no current context; call aclrtSetDevice or aclrtSetCurrentContext in it first");
}

Failure find_stream(aclrtStream handle, std::shared_ptr<Stream>* stream) {
    if (handle == nullptr) {
        const auto context = current_context();
        if (!context) return no_context();
        *stream = context->default_stream();
        return {};
    }
    *stream = runtime().streams.find(handle);
    if (!*stream) return failure(ACL_ERROR_RT_INVALID_HANDLE, runtime().streams.explain(handle));
    return {};
}

}  // namespace gmmfr
