// Exported: functions that torch_npu 2.13.0 links or looks up and that no simulated work needs. A call of one says its
// name on standard error and in the thread's message, and fails.
//
// The parameters do not matter: callers clean up their own arguments in the C calling convention.
#include <cstdio>

#include "entry.hpp"

using namespace gmmfr;

namespace {

int refuse(const char* name) noexcept {
    try {
        const int code = fail(ACL_ERROR_API_NOT_SUPPORT, name, " is not simulated");
        std::fprintf(stderr, "gmmfr simulator: %s is not simulated\n", name);
        return code;
    } catch (const std::bad_alloc&) {
        return ACL_ERROR_BAD_ALLOC;
    }
}

}  // namespace

#define REFUSE_WITH_CODE(name)    \
    GMMFR_EXPORT int name(void) { \
        return refuse(#name);     \
    }
#define REFUSE_WITH_NULL(name)      \
    GMMFR_EXPORT void* name(void) { \
        refuse(#name);              \
        return nullptr;             \
    }
#define REFUSE_WITH_ZERO(name)         \
    GMMFR_EXPORT uint64_t name(void) { \
        refuse(#name);                 \
        return 0;                      \
    }

// Profiling
REFUSE_WITH_ZERO(MsprofGetHashId)
REFUSE_WITH_ZERO(MsprofSysCycleTime)
REFUSE_WITH_CODE(MsprofRegisterCallback)
REFUSE_WITH_CODE(MsprofReportAdditionalInfo)
REFUSE_WITH_CODE(MsprofReportApi)
REFUSE_WITH_CODE(MsprofReportCompactInfo)

// Dumps
REFUSE_WITH_CODE(aclmdlInitDump)
REFUSE_WITH_CODE(aclmdlSetDump)
REFUSE_WITH_CODE(aclmdlFinalizeDump)

// Kernels that are loaded as binaries
REFUSE_WITH_CODE(aclrtBinaryGetFunction)
REFUSE_WITH_CODE(aclrtBinaryLoadFromData)
REFUSE_WITH_CODE(aclrtGetFunctionAddr)
REFUSE_WITH_CODE(rtDevBinaryRegister)
REFUSE_WITH_CODE(rtFunctionRegister)
REFUSE_WITH_CODE(rtGetC2cCtrlAddr)
REFUSE_WITH_CODE(rtKernelLaunch)

// Virtual memory and memory shared between processes
REFUSE_WITH_CODE(aclrtMallocPhysical)
REFUSE_WITH_CODE(aclrtFreePhysical)
REFUSE_WITH_CODE(aclrtReserveMemAddress)
REFUSE_WITH_CODE(aclrtReleaseMemAddress)
REFUSE_WITH_CODE(aclrtMapMem)
REFUSE_WITH_CODE(aclrtUnmapMem)
REFUSE_WITH_CODE(aclrtMemExportToShareableHandle)
REFUSE_WITH_CODE(aclrtMemImportFromShareableHandle)
REFUSE_WITH_CODE(aclrtMemSetPidToShareableHandle)
REFUSE_WITH_CODE(aclrtDeviceGetBareTgid)

// Host callbacks
REFUSE_WITH_CODE(aclrtProcessReport)
