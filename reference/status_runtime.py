"""Codes of the ACL runtime (``aclError``): rows of :mod:`reference.status`, without their class."""

from __future__ import annotations

from reference.status_causes import DEVICE, HANDLE, OUT_OF_BOUNDS, PACKAGE, REPORT

_ALIGN = "Device addresses should be 32-byte aligned: pass the start of an aclrtMalloc block."
_LACKS = "This device or release lacks the feature; gmmfr doctor shows both."
_WAIT = "The device did not finish in the given time: raise the time or look for a hung kernel."
_FIRST = "Another error came before: look for the first one in the log."
_HANGS = (
    "A kernel did not finish. For this operator look at group_list first: a negative sum makes a loop of "
    "about 4*10^9 rows."
)

#: Rows in the order of the headers.
RUNTIME: tuple[tuple[int, str, str, str], ...] = (
    (
        100000,
        "ACL_ERROR_INVALID_PARAM",
        "invalid parameter",
        "A null or out-of-range argument of a runtime call.",
    ),
    (
        100001,
        "ACL_ERROR_UNINITIALIZE",
        "ACL is not initialised",
        "Call aclInit (or use a Plan, which does) before any other call.",
    ),
    (
        100002,
        "ACL_ERROR_REPEAT_INITIALIZE",
        "ACL is already initialised",
        "Another library of the process, for example torch_npu, called aclInit first. Harmless: go on.",
    ),
    (
        100003,
        "ACL_ERROR_INVALID_FILE",
        "invalid file",
        "A configuration or operator file cannot be read: check its path and rights.",
    ),
    (100024, "ACL_ERROR_OP_NOT_FOUND", "operator not found", PACKAGE),
    (100025, "ACL_ERROR_OP_LOAD_FAILED", "operator could not be loaded", PACKAGE),
    (
        100026,
        "ACL_ERROR_UNSUPPORTED_DATA_TYPE",
        "unsupported data type",
        "Run gmmfr validate: it names the dtype each argument takes on this platform.",
    ),
    (
        100027,
        "ACL_ERROR_FORMAT_NOT_MATCH",
        "format does not match",
        "Run gmmfr validate: it names the format each argument takes.",
    ),
    (100029, "ACL_ERROR_KERNEL_NOT_FOUND", "kernel not found", PACKAGE),
    (
        100037,
        "ACL_ERROR_REPEAT_FINALIZE",
        "ACL is already finalised",
        "aclFinalize ran twice, or before the last handle was released.",
    ),
    (
        100039,
        "ACL_ERROR_COMPILING_STUB_MODE",
        "a stub library was loaded",
        "The linker found the toolkit's devlib or stub directory first: put the runtime's lib64 in "
        "front of it in LD_LIBRARY_PATH.",
    ),
    (
        148049,
        "ACL_ERROR_INVALID_OPP_PATH",
        "the operator package path is invalid",
        "ASCEND_OPP_PATH does not exist: source the toolkit's set_env.sh.",
    ),
    (148050, "ACL_ERROR_OP_UNSUPPORTED_DYNAMIC", "the operator does not support dynamic shapes", PACKAGE),
    (
        148051,
        "ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED",
        "related resources are not released",
        "Destroy tensors, executors and streams before the context.",
    ),
    (200000, "ACL_ERROR_BAD_ALLOC", "host memory could not be allocated", "The host is out of memory."),
    (
        200001,
        "ACL_ERROR_API_NOT_SUPPORT",
        "the call is not supported",
        "This CANN release or device lacks the function; gmmfr doctor shows the release.",
    ),
    (
        200002,
        "ACL_ERROR_INVALID_DEVICE",
        "invalid device",
        "The device id does not exist, or ASCEND_RT_VISIBLE_DEVICES hides it.",
    ),
    (200003, "ACL_ERROR_MEMORY_ADDRESS_UNALIGNED", "unaligned address", _ALIGN),
    (
        200004,
        "ACL_ERROR_RESOURCE_NOT_MATCH",
        "resource does not match",
        "A stream or event of another context or device.",
    ),
    (200005, "ACL_ERROR_INVALID_RESOURCE_HANDLE", "invalid handle", HANDLE),
    (200006, "ACL_ERROR_FEATURE_UNSUPPORTED", "feature unsupported", _LACKS),
    (
        300000,
        "ACL_ERROR_STORAGE_OVER_LIMIT",
        "storage over its limit",
        "A configured limit is reached: see the log for which.",
    ),
    (500000, "ACL_ERROR_INTERNAL_ERROR", "internal error", REPORT),
    (500001, "ACL_ERROR_FAILURE", "internal failure", REPORT),
    (500002, "ACL_ERROR_GE_FAILURE", "the graph engine failed", REPORT),
    (500003, "ACL_ERROR_RT_FAILURE", "the runtime failed", REPORT),
    (500004, "ACL_ERROR_DRV_FAILURE", "the driver failed", DEVICE),
    (
        500005,
        "ACL_ERROR_PROFILING_FAILURE",
        "profiling failed",
        "Switch profiling off to see whether the call itself works.",
    ),
    (
        107000,
        "ACL_ERROR_RT_PARAM_INVALID",
        "invalid parameter of a runtime call",
        "A null pointer, a size of 0 or an enum value out of range.",
    ),
    (
        107001,
        "ACL_ERROR_RT_INVALID_DEVICEID",
        "invalid device id",
        "The id is not below the device count; ASCEND_RT_VISIBLE_DEVICES renumbers devices.",
    ),
    (
        107002,
        "ACL_ERROR_RT_CONTEXT_NULL",
        "no context in this thread",
        "Contexts belong to threads: call aclrtSetDevice in this thread first. After a fork the child "
        "has none: use spawn.",
    ),
    (
        107003,
        "ACL_ERROR_RT_STREAM_CONTEXT",
        "the stream is not of this context",
        "The stream was created on another device or in another context: make it current first.",
    ),
    (107008, "ACL_ERROR_RT_ADDR_UNALIGNED", "unaligned address", _ALIGN),
    (
        107016,
        "ACL_ERROR_RT_INVALID_MEMORY_TYPE",
        "wrong memory type",
        "A host pointer where a device pointer is needed, or the copy kind is reversed.",
    ),
    (107017, "ACL_ERROR_RT_INVALID_HANDLE", "invalid handle", HANDLE),
    (
        107018,
        "ACL_ERROR_RT_INVALID_MALLOC_TYPE",
        "invalid allocation policy",
        "The policy does not exist on this device: use huge-first.",
    ),
    (107019, "ACL_ERROR_RT_WAIT_TIMEOUT", "waiting timed out", _WAIT),
    (
        107020,
        "ACL_ERROR_RT_TASK_TIMEOUT",
        "a task timed out",
        "A kernel did not finish: see the device log. " + REPORT,
    ),
    (
        107021,
        "ACL_ERROR_RT_SYSPARAMOPT_NOT_SET",
        "the system option is not set",
        "Reading an option, such as determinism, that nobody has set. Treat it as off.",
    ),
    (107022, "ACL_ERROR_RT_DEVICE_TASK_ABORT", "tasks on the device were aborted", _FIRST),
    (107023, "ACL_ERROR_RT_STREAM_ABORT", "the stream was aborted", _FIRST),
    (207000, "ACL_ERROR_RT_FEATURE_NOT_SUPPORT", "feature unsupported", _LACKS),
    (
        207001,
        "ACL_ERROR_RT_MEMORY_ALLOCATION",
        "device memory could not be allocated",
        "Out of device memory: free tensors or use a smaller shape. Atlas A2/A3 W4A8 alone asks for "
        "about 20 MiB + 4 MiB per cube core of workspace.",
    ),
    (
        207002,
        "ACL_ERROR_RT_MEMORY_FREE",
        "device memory could not be freed",
        "The pointer was freed before or is not the start of a block.",
    ),
    (
        207004,
        "ACL_ERROR_RT_NO_DEVICE",
        "no device",
        "No NPU is visible: check npu-smi info and ASCEND_RT_VISIBLE_DEVICES.",
    ),
    (
        207005,
        "ACL_ERROR_RT_RESOURCE_ALLOC_FAIL",
        "a resource could not be allocated",
        "Too many streams, events or processes on the device.",
    ),
    (
        207006,
        "ACL_ERROR_RT_NO_PERMISSION",
        "no permission",
        "The user is not in the group that owns /dev/davinci*: add it to that group.",
    ),
    (207008, "ACL_ERROR_RT_NO_STREAM_RESOURCE", "no stream left", "Destroy streams that are no longer used."),
    (
        207012,
        "ACL_ERROR_RT_OVER_LIMIT",
        "over a limit",
        "A resource limit of the device is reached: see the log for which.",
    ),
    (
        207018,
        "ACL_ERROR_RT_DEVICE_OOM",
        "device out of memory",
        "Free tensors or use a smaller shape; another process may hold the memory (npu-smi info).",
    ),
    (507000, "ACL_ERROR_RT_INTERNAL_ERROR", "internal runtime error", REPORT),
    (507001, "ACL_ERROR_RT_TS_ERROR", "the task scheduler failed", DEVICE),
    (
        507008,
        "ACL_ERROR_RT_SOC_VERSION",
        "the SoC version does not match",
        "The library or kernel was built for another SoC; gmmfr doctor shows the device's name.",
    ),
    (507010, "ACL_ERROR_RT_LOST_HEARTBEAT", "the device lost its heartbeat", DEVICE),
    (507011, "ACL_ERROR_RT_MODEL_EXECUTE", "executing a model failed", _FIRST),
    (507014, "ACL_ERROR_RT_AICORE_TIMEOUT", "an AI core timed out", _HANGS),
    (507015, "ACL_ERROR_RT_AICORE_EXCEPTION", "an AI core raised an exception", OUT_OF_BOUNDS),
    (507016, "ACL_ERROR_RT_AICORE_TRAP_EXCEPTION", "an AI core trapped", OUT_OF_BOUNDS),
    (507018, "ACL_ERROR_RT_AICPU_EXCEPTION", "an AI CPU raised an exception", REPORT),
    (507033, "ACL_ERROR_RT_DEV_SETUP_ERROR", "the device could not be set up", DEVICE),
    (507034, "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT", "a vector core timed out", _HANGS),
    (507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION", "a vector core raised an exception", OUT_OF_BOUNDS),
    (507042, "ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW", "an AI core read out of bounds", OUT_OF_BOUNDS),
    (507043, "ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW", "an AI core wrote out of bounds", OUT_OF_BOUNDS),
    (
        507044,
        "ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW",
        "a vector core read out of bounds",
        OUT_OF_BOUNDS,
    ),
    (
        507045,
        "ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW",
        "a vector core wrote out of bounds",
        OUT_OF_BOUNDS,
    ),
    (507046, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", "synchronising the stream timed out", _WAIT),
    (507053, "ACL_ERROR_RT_DEVICE_MEM_ERROR", "device memory error", DEVICE),
    (507054, "ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR", "uncorrectable HBM error", DEVICE),
    (507899, "ACL_ERROR_RT_DRV_INTERNAL_ERROR", "internal driver error", DEVICE),
    (507901, "ACL_ERROR_RT_SOCKET_CLOSE", "the connection to the device closed", DEVICE),
)
