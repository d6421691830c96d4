// Exported: runtime functions that torch_npu calls and the operator's own clients do not.
#include <cstdarg>
#include <cstdio>

#include "runtime.hpp"
#include "soc.hpp"

using namespace gmmfr;

namespace {

// aclDeviceInfo
constexpr int kCubeCoreCount = 0, kVectorCoreCount = 1, kL2Bytes = 2;
constexpr int64_t kVectorCoresPerCubeCore = 2;

Failure device_capability(int what, int64_t* value) {
    const Soc& soc = current_soc();
    switch (what) {
        case kCubeCoreCount: *value = static_cast<int64_t>(soc.cube_cores); return {};
        case kVectorCoreCount: *value = static_cast<int64_t>(soc.cube_cores) * kVectorCoresPerCubeCore; return {};
        case kL2Bytes: *value = static_cast<int64_t>(soc.l2_bytes); return {};
        default: return failure(ACL_ERROR_INVALID_PARAM, "deviceInfo: expected 0 to 2, got ", what);
    }
}

const char* level_name(int level) {
    static constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    return level >= 0 && level < 4 ? kNames[level] : "LOG";
}

}  // namespace

GMMFR_EXPORT aclError aclGetDeviceCapability(uint32_t deviceId, int deviceInfo, int64_t* value) {
    return entry("aclGetDeviceCapability", [&] {
        if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "value is NULL");
        if (Failure failed = check_device(static_cast<int32_t>(deviceId))) return report(failed);
        return report(device_capability(deviceInfo, value));
    });
}

// Seconds that a kernel may run before the device stops it; simulated kernels are never stopped.
GMMFR_EXPORT aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
    (void)timeout;
    return entry("aclrtSetOpExecuteTimeOut", [] { return ACL_SUCCESS; });
}

// Options of the compiler of operators; there is nothing to compile.
GMMFR_EXPORT aclError aclSetCompileopt(int option, const char* value) {
    return entry("aclSetCompileopt", [&] {
        (void)option;
        return value == nullptr ? fail(ACL_ERROR_INVALID_PARAM, "value is NULL") : ACL_SUCCESS;
    });
}

// All simulated devices share the host's memory, so each reaches the others.
GMMFR_EXPORT aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
    return entry("aclrtDeviceCanAccessPeer", [&] {
        if (canAccessPeer == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "canAccessPeer is NULL");
        if (Failure failed = check_device(deviceId)) return report(failed);
        if (Failure failed = check_device(peerDeviceId)) return report(failed);
        *canAccessPeer = deviceId == peerDeviceId ? 0 : 1;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
    return entry("aclrtDeviceEnablePeerAccess", [&] {
        if (flags != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "flags: expected 0, got ", flags);
        return report(check_device(peerDeviceId));
    });
}

// The caller's log lines, where its own settings turn them on.
GMMFR_EXPORT void aclAppLog(int level, const char* function, const char* file, uint32_t line, const char* format, ...) {
    (void)file;
    char words[1024];
    va_list values;
    va_start(values, format);
    std::vsnprintf(words, sizeof words, format, values);
    va_end(values);
    std::fprintf(stderr, "[%s] %s:%u %s\n", level_name(level), function == nullptr ? "?" : function, line, words);
}
