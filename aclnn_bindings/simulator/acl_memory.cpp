// Exported: device and host memory, copies.
#include <algorithm>
#include <cstring>

#include "ordering.hpp"
#include "runtime.hpp"
#include "thread_pool.hpp"

using namespace gmmfr;

namespace {

constexpr size_t kUnit = 32;
constexpr size_t kCopyPart = size_t{4} << 20;

struct Copy {
    void* target = nullptr;
    const void* source = nullptr;
    size_t count = 0;
    bool to_device = false;
    bool from_device = false;
    // the host sides that lie in memory of aclrtMallocHost: they must still do so when the copy runs
    bool to_known_host = false;
    bool from_known_host = false;
};

int allocate_device(void** address, size_t size, int policy) {
    if (address == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
    *address = nullptr;
    if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "size: expected more than 0 bytes, got 0");
    if (policy < 0) {
        return fail(ACL_ERROR_INVALID_PARAM, "policy: unknown value ", policy);
    }
    const auto context = current_context();
    if (!context) return report(no_context());
    if (size > SIZE_MAX - 2 * kUnit) {
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory: ", size, " bytes asked for");
    }
    const size_t bytes = (size + kUnit - 1) / kUnit * kUnit + kUnit;
    return report(device_memory().allocate(size, bytes, context->device(), address));
}

Failure plan_copy(void* dst, size_t dest_max, const void* src, size_t count, int kind, Copy* copy) {
    if (dst == nullptr || src == nullptr) {
        return failure(ACL_ERROR_RT_PARAM_INVALID, dst == nullptr ? "dst" : "src", " is NULL");
    }
    if (count > dest_max) {
        return failure(ACL_ERROR_RT_PARAM_INVALID, "count ", count, " is more than destMax ", dest_max);
    }
    *copy = Copy{dst, src, count, false, false, host_memory().contains(dst), host_memory().contains(src)};
    switch (kind) {
        case ACL_MEMCPY_HOST_TO_HOST: break;
        case ACL_MEMCPY_HOST_TO_DEVICE:
        case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: copy->to_device = true; break;
        case ACL_MEMCPY_DEVICE_TO_HOST: copy->from_device = true; break;
        case ACL_MEMCPY_DEVICE_TO_DEVICE:
        case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
        case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE: copy->to_device = copy->from_device = true; break;
        case ACL_MEMCPY_DEFAULT:
            copy->to_device = device_memory().contains(dst);
            copy->from_device = device_memory().contains(src);
            break;
        default: return failure(ACL_ERROR_RT_PARAM_INVALID, "kind: unknown value ", kind);
    }
    return {};
}

// Holds one side of a copy while it runs, as far as it is this runtime's memory.
Failure pin_side(const char* name, const void* address, size_t count, bool on_device, bool known_host,
                 std::shared_ptr<Block>* block) {
    std::string why;
    if (on_device || known_host) {
        *block = (on_device ? device_memory() : host_memory()).pin(address, count, &why);
        return *block ? Failure{} : failure(ACL_ERROR_RT_PARAM_INVALID, name, ": ", why);
    }
    if (device_memory().contains(address)) {
        return failure(ACL_ERROR_RT_PARAM_INVALID, name, ": ", address,
                       " is a device address, but the kind of the copy makes it a host address");
    }
    return {};
}

// Long copies use all cores: the first touch of fresh memory costs more than the copy.
void move_bytes(std::byte* target, const std::byte* source, size_t count) {
    const auto distance = reinterpret_cast<uintptr_t>(target) - reinterpret_cast<uintptr_t>(source);
    const bool overlap = distance < count || 0 - distance < count;
    if (count < 2 * kCopyPart || overlap) {
        std::memmove(target, source, count);
        return;
    }
    const auto parts = static_cast<int64_t>((count + kCopyPart - 1) / kCopyPart);
    ThreadPool::shared().run(parts, static_cast<int64_t>(count / 16), [&](int64_t part) {
        const size_t first = static_cast<size_t>(part) * kCopyPart;
        std::memcpy(target + first, source + first, std::min(kCopyPart, count - first));
    });
}

Failure run_copy(const Copy& copy) {
    std::shared_ptr<Block> target, source;
    Failure failed = pin_side("dst", copy.target, copy.count, copy.to_device, copy.to_known_host, &target);
    if (failed) return failed;
    failed = pin_side("src", copy.source, copy.count, copy.from_device, copy.from_known_host, &source);
    if (failed) return failed;
    move_bytes(static_cast<std::byte*>(copy.target), static_cast<const std::byte*>(copy.source), copy.count);
    return {};
}

Failure run_memset(void* address, int32_t value, size_t count) {
    std::string why;
    const auto block = device_memory().pin(address, count, &why);
    if (!block) return failure(ACL_ERROR_RT_PARAM_INVALID, "devPtr: ", why);
    std::memset(address, value, count);
    return {};
}

Failure check_memset(const void* address, size_t max_count, size_t count) {
    if (address == nullptr) return failure(ACL_ERROR_RT_PARAM_INVALID, "devPtr is NULL");
    if (count <= max_count) return {};
    return failure(ACL_ERROR_RT_PARAM_INVALID, "count ", count, " is more than maxCount ", max_count);
}

std::vector<Access> accesses_of(const Copy& copy) {
    std::vector<Access> accesses;
    if (copy.to_device) accesses.push_back({"dst", copy.target, copy.count, true});
    if (copy.from_device) accesses.push_back({"src", copy.source, copy.count, false});
    return accesses;
}

int submit(aclrtStream handle, const std::vector<Access>& accesses, std::function<Failure()> run) {
    std::shared_ptr<Stream> stream;
    if (Failure failed = find_stream(handle, &stream)) return report(failed);
    if (Failure failed = order_work(*stream, accesses)) return report(failed);
    if (stream->submit({std::move(run)})) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_INVALID_HANDLE, "the stream is being destroyed");
}

}  // namespace

GMMFR_EXPORT aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return entry("aclrtMalloc", [&] { return allocate_device(devPtr, size, number_of(policy)); });
}

GMMFR_EXPORT aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return entry("aclrtMallocAlign32", [&] { return allocate_device(devPtr, size, number_of(policy)); });
}

GMMFR_EXPORT aclError aclrtFree(void* devPtr) {
    return entry("aclrtFree", [&] {
        if (devPtr == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "devPtr is NULL");
        const Failure in_use = order_free(devPtr);
        const Failure released = device_memory().release(devPtr);
        return report(in_use ? in_use : released);
    });
}

GMMFR_EXPORT aclError aclrtMallocHost(void** hostPtr, size_t size) {
    return entry("aclrtMallocHost", [&] {
        if (hostPtr == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "hostPtr is NULL");
        *hostPtr = nullptr;
        if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "size: expected more than 0 bytes, got 0");
        if (!current_context()) return report(no_context());
        return report(host_memory().allocate(size, size, -1, hostPtr));
    });
}

GMMFR_EXPORT aclError aclrtFreeHost(void* hostPtr) {
    return entry("aclrtFreeHost", [&] {
        if (hostPtr == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "hostPtr is NULL");
        return report(host_memory().release(hostPtr));
    });
}

GMMFR_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
    return entry("aclrtGetMemInfo", [&] {
        if (free == nullptr || total == nullptr) {
            return fail(ACL_ERROR_RT_PARAM_INVALID, free == nullptr ? "free" : "total", " is NULL");
        }
        const int which = number_of(attr);
        if (which < ACL_DDR_MEM || which > ACL_HBM_MEM_P2P_HUGE1G) {
            return fail(ACL_ERROR_RT_PARAM_INVALID, "attr: unknown value ", which);
        }
        *total = device_memory().capacity();
        *free = *total - device_memory().statistics().live_bytes;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
    return entry("aclrtMemcpy", [&] {
        Copy copy;
        if (Failure failed = plan_copy(dst, destMax, src, count, number_of(kind), &copy)) return report(failed);
        if (!current_context()) return report(no_context());
        if (Failure failed = order_host_work(accesses_of(copy))) return report(failed);
        return report(run_copy(copy));
    });
}

GMMFR_EXPORT aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream stream) {
    return entry("aclrtMemcpyAsync", [&] {
        Copy copy;
        if (Failure failed = plan_copy(dst, destMax, src, count, number_of(kind), &copy)) return report(failed);
        return submit(stream, accesses_of(copy), [copy] { return run_copy(copy); });
    });
}

GMMFR_EXPORT aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
    return entry("aclrtMemset", [&] {
        if (Failure failed = check_memset(devPtr, maxCount, count)) return report(failed);
        if (!current_context()) return report(no_context());
        if (Failure failed = order_host_work({{"devPtr", devPtr, count, true}})) return report(failed);
        return report(run_memset(devPtr, value, count));
    });
}

GMMFR_EXPORT aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    return entry("aclrtMemsetAsync", [&] {
        if (Failure failed = check_memset(devPtr, maxCount, count)) return report(failed);
        return submit(stream, {{"devPtr", devPtr, count, true}}, [=] { return run_memset(devPtr, value, count); });
    });
}
