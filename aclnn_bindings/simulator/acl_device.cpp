// Exported: initialisation, devices, contexts, system parameters, error text.
#include "checking.hpp"
#include "kernel.hpp"
#include "ordering.hpp"
#include "runtime.hpp"
#include "soc.hpp"

using namespace gmmfr;

namespace {

// The ACL version that the simulator's contract follows.
constexpr int32_t kMajorVersion = 1, kMinorVersion = 15, kPatchVersion = 0;

std::atomic<int> overflow_mode{ACL_RT_OVERFLOW_MODE_INFNAN};

Failure null_argument(const char* name) {
    return failure(ACL_ERROR_RT_PARAM_INVALID, name, " is NULL");
}

Failure check_option(int option) {
    if (option >= ACL_OPT_DETERMINISTIC && option <= ACL_OPT_STRONG_CONSISTENCY) return {};
    return failure(ACL_ERROR_RT_PARAM_INVALID, "opt: expected 0 to 2, got ", option);
}

int get_option(const SystemParameters& parameters, int option, int64_t* value) {
    if (value == nullptr) return report(null_argument("value"));
    if (Failure failed = check_option(option)) return report(failed);
    if (parameters.get(option, value)) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "option ", option, " was not set");
}

Failure synchronize_device(int32_t timeout) {
    const auto context = current_context();
    if (!context) return no_context();
    Failure first;
    const auto collect = [&](Stream& stream) {
        Failure failed = stream.synchronize(timeout);
        if (failed.code != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) order_synchronize(stream);
        if (!first) first = std::move(failed);
    };
    for (const auto& stream : runtime().streams.all()) {
        if (stream->device() != context->device()) continue;
        collect(*stream);
    }
    for (const auto& other : runtime().contexts.all()) {
        if (other->device() != context->device()) continue;
        collect(*other->default_stream());
    }
    return first;
}

}  // namespace

bool gmmfr::saturation_mode() {
    return overflow_mode.load() == ACL_RT_OVERFLOW_MODE_SATURATION;
}

GMMFR_EXPORT aclError aclInit(const char* configPath) {
    (void)configPath;
    return entry("aclInit", [] { return report(runtime().initialize()); });
}

GMMFR_EXPORT aclError aclFinalize(void) {
    return entry("aclFinalize", [] {
        uint64_t left = 0;
        if (Failure failed = runtime().finalize(&left)) return report(failed);
        return left == 0 && checking() ? report(find_leaks()) : ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclFinalizeReference(uint64_t* refCount) {
    return entry("aclFinalizeReference", [&] {
        uint64_t left = 0;
        Failure failed = runtime().finalize(&left);
        if (refCount != nullptr) *refCount = left;
        return report(failed);
    });
}

GMMFR_EXPORT const char* aclGetRecentErrMsg(void) {
    return take_message();
}

GMMFR_EXPORT aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
    return entry("aclrtGetVersion", [&] {
        if (majorVersion == nullptr || minorVersion == nullptr || patchVersion == nullptr) {
            return report(null_argument("a version pointer"));
        }
        *majorVersion = kMajorVersion;
        *minorVersion = kMinorVersion;
        *patchVersion = kPatchVersion;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT size_t aclDataTypeSize(aclDataType dataType) {
    switch (number_of(dataType)) {
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_BOOL:
        case ACL_HIFLOAT8:
        case ACL_FLOAT8_E5M2:
        case ACL_FLOAT8_E4M3FN:
        case ACL_FLOAT8_E8M0: return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16: return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32: return 4;
        case ACL_DOUBLE:
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_COMPLEX64: return 8;
        case ACL_COMPLEX128: return 16;
        default: return 0;
    }
}

GMMFR_EXPORT aclError aclrtGetDeviceCount(uint32_t* count) {
    return entry("aclrtGetDeviceCount", [&] {
        if (count == nullptr) return report(null_argument("count"));
        *count = device_count();
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtSetDevice(int32_t deviceId) {
    return entry("aclrtSetDevice", [&] { return report(runtime().set_device(deviceId)); });
}

GMMFR_EXPORT aclError aclrtResetDevice(int32_t deviceId) {
    return entry("aclrtResetDevice", [&] { return report(runtime().reset_device(deviceId)); });
}

GMMFR_EXPORT aclError aclrtGetDevice(int32_t* deviceId) {
    return entry("aclrtGetDevice", [&] {
        if (deviceId == nullptr) return report(null_argument("deviceId"));
        const auto context = current_context();
        if (!context) return report(no_context());
        *deviceId = context->device();
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtSynchronizeDevice(void) {
    return entry("aclrtSynchronizeDevice", [] { return report(synchronize_device(-1)); });
}

GMMFR_EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    return entry("aclrtSynchronizeDeviceWithTimeout", [&] { return report(synchronize_device(timeout)); });
}

GMMFR_EXPORT aclError aclrtGetRunMode(aclrtRunMode* runMode) {
    return entry("aclrtGetRunMode", [&] {
        if (runMode == nullptr) return report(null_argument("runMode"));
        *runMode = ACL_HOST;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT const char* aclrtGetSocName(void) {
    return current_soc().name.c_str();
}

GMMFR_EXPORT aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
    return entry("aclrtSetDeviceSatMode", [&] {
        const int chosen = number_of(mode);
        if (chosen != ACL_RT_OVERFLOW_MODE_SATURATION && chosen != ACL_RT_OVERFLOW_MODE_INFNAN) {
            return fail(ACL_ERROR_RT_PARAM_INVALID, "mode: expected 0 (saturation) or 1 (inf/nan), got ", chosen);
        }
        if (chosen == ACL_RT_OVERFLOW_MODE_SATURATION && current_soc().is_950()) {
            return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, current_soc().name, " has the inf/nan mode only");
        }
        overflow_mode = chosen;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
    return entry("aclrtGetDeviceSatMode", [&] {
        if (mode == nullptr) return report(null_argument("mode"));
        *mode = static_cast<aclrtFloatOverflowMode>(overflow_mode.load());
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
    return entry("aclrtCreateContext", [&] {
        if (context == nullptr) return report(null_argument("context"));
        if (Failure failed = check_device(deviceId)) return report(failed);
        if (!runtime().initialized()) return fail(ACL_ERROR_UNINITIALIZE, "call aclInit first");
        *context = runtime().contexts.add(std::make_shared<Context>(deviceId, false));
        set_current_context(*context);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtDestroyContext(aclrtContext context) {
    return entry("aclrtDestroyContext", [&] {
        const auto found = runtime().contexts.find(context);
        if (!found) return fail(ACL_ERROR_RT_INVALID_HANDLE, runtime().contexts.explain(context));
        if (found->primary()) {
            return fail(ACL_ERROR_RT_INVALID_HANDLE,
                        "the context of aclrtSetDevice is given back by aclrtResetDevice, not destroyed");
        }
        runtime().contexts.remove(context);
        found->default_stream()->close(false);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtSetCurrentContext(aclrtContext context) {
    return entry("aclrtSetCurrentContext", [&] {
        if (!runtime().contexts.find(context)) {
            return fail(ACL_ERROR_RT_INVALID_HANDLE, runtime().contexts.explain(context));
        }
        set_current_context(context);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtGetCurrentContext(aclrtContext* context) {
    return entry("aclrtGetCurrentContext", [&] {
        if (context == nullptr) return report(null_argument("context"));
        *context = current_context_handle();
        return *context == nullptr ? report(no_context()) : ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return entry("aclrtSetSysParamOpt", [&] {
        if (Failure failed = check_option(number_of(opt))) return report(failed);
        runtime().parameters.set(number_of(opt), value);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    return entry("aclrtGetSysParamOpt", [&] {
        if (value == nullptr) return report(null_argument("value"));
        if (Failure failed = check_option(number_of(opt))) return report(failed);
        // The process level is off until somebody sets it: torch_npu 2.13.0 reads it first, and does not start where
        // that fails.
        if (!runtime().parameters.get(number_of(opt), value)) *value = 0;
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return entry("aclrtCtxSetSysParamOpt", [&] {
        if (Failure failed = check_option(number_of(opt))) return report(failed);
        const auto context = current_context();
        if (!context) return report(no_context());
        context->parameters.set(number_of(opt), value);
        return ACL_SUCCESS;
    });
}

GMMFR_EXPORT aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    return entry("aclrtCtxGetSysParamOpt", [&] {
        const auto context = current_context();
        if (!context) return report(no_context());
        return get_option(context->parameters, number_of(opt), value);
    });
}
