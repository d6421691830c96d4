"""Every status code a caller of the operator can meet: its name, its meaning, what usually causes it.

``aclnnStatus`` comes from phase 1 and phase 2 (op_errno.h), ``aclError`` from the ACL runtime (acl_base.h,
acl_rt.h).  A test compares the names with ``include/``.  This module imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

SUCCESS = 0
NULLPTR = 161001
INVALID = 161002
INNER_NULLPTR = 561103


@dataclass(frozen=True)
class Status:
    """One code: the vendor's enumerator, what it means, what usually causes it and what to do."""

    code: int
    name: str
    meaning: str
    cause: str = ""


_REPORT = "Keep the call as a bundle (gmmfr record), read the device log (plog) and report it with both."
_HANDLE = "A handle was used after it was destroyed, or never existed: keep executors and tensors alive until the stream is synchronised."
_PACKAGE = "The operator package does not fit this CANN installation: reinstall ops and toolkit of one version; gmmfr doctor lists both."
_DEVICE = (
    "The device, its driver or its link failed: check npu-smi info and the driver log; reset the device."
)
_OUT_OF_BOUNDS = (
    "A kernel touched memory outside its tensors. For this operator: a row_index outside 0..batch-1, group_list entries"
    " that add up to more than m rows, negative or decreasing entries, or a buffer freed before the stream was"
    " synchronised. Save the call as a bundle and run gmmfr validate on it: it reads the values."
)

_ACLNN = (
    Status(
        SUCCESS,
        "ACLNN_SUCCESS",
        "success",
        "Phase 1 accepted the call. Values on the device are never checked.",
    ),
    Status(
        NULLPTR,
        "ACLNN_ERR_PARAM_NULLPTR",
        "a required argument is null, or one that must be null is not",
        "The operator requires x1, x2, scale, pertoken_scale, group_list, logit, row_index and out, on Atlas A2/A3 also"
        " bias (for W4A8 it is 8*sum_k(w*scale), not the model's bias). The same code comes back for antiquant_scale or"
        " antiquant_offset that are not null, and on Ascend 950 for an offset. One call names all of them in its message,"
        " except out, which fails without one. Run gmmfr validate for the list.",
    ),
    Status(
        INVALID,
        "ACLNN_ERR_PARAM_INVALID",
        "an argument has a wrong dtype, shape, format or value",
        "Any dtype, rank, shape, format or attribute rule of phase 1; several are refused without a message. Usual: x2 not"
        " INT32 on Atlas A2/A3, K of x1 and x2 differ, scale not (e, 1, n), shared_input_offset + rows above the rows of"
        " out, a scale that is not laid out like the weight on Ascend 950. Run gmmfr validate: it lists every rule that is"
        " broken, what was expected and what came.",
    ),
    Status(
        361001,
        "ACLNN_ERR_RUNTIME_ERROR",
        "a call to the runtime failed",
        "The runtime's own code is in the log. " + _DEVICE,
    ),
    Status(
        561000,
        "ACLNN_ERR_INNER",
        "internal error",
        "aclSetAclOpExecutorRepeatable returns it for an executor that came from the phase-1 cache, and, on releases before mid 2026, for every call with offset: run it once instead. Otherwise: "
        + _REPORT,
    ),
    Status(
        561001,
        "ACLNN_ERR_INNER_INFERSHAPE_ERROR",
        "shape inference failed",
        "Seen in the log under 561103: shapes that passed the first checks disagree. Run gmmfr validate. "
        + _REPORT,
    ),
    Status(
        561002,
        "ACLNN_ERR_INNER_TILING_ERROR",
        "tiling failed",
        "The shape is outside what the kernel can cut up: K above 18432 on Atlas A2/A3, out with more rows than m or an empty x2 on Ascend 950. Run gmmfr validate; where it finds nothing: "
        + _REPORT,
    ),
    Status(
        561003,
        "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
        "no kernel binary for this call",
        "The kernel package of this SoC is missing or older than the operator library. " + _PACKAGE,
    ),
    Status(
        561101,
        "ACLNN_ERR_INNER_CREATE_EXECUTOR",
        "the executor could not be created",
        "Host memory, or the library was not initialised. " + _REPORT,
    ),
    Status(
        561102,
        "ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR",
        "the executor was not taken over",
        "An internal error of the library: the unique executor was not released. " + _REPORT,
    ),
    Status(
        INNER_NULLPTR,
        "ACLNN_ERR_INNER_NULLPTR",
        "an internal step returned null",
        "Not one of your pointers: shape inference or tiling refused the call after the argument checks. On Ascend 950:"
        " out with more rows than x1, an empty x2 (e = 0), NZ weight with a wrong storage shape. Also a NULL executor"
        " passed to aclSetAclOpExecutorRepeatable or aclDestroyAclOpExecutor. Run gmmfr validate.",
    ),
    Status(561104, "ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE", "wrong number or size of attributes", _PACKAGE),
    Status(561105, "ACLNN_ERR_INNER_KEY_CONFLICT", "two kernels share one key", _PACKAGE),
    Status(
        561106,
        "ACLNN_ERR_INNER_INVALID_IMPL_MODE",
        "invalid implementation mode",
        "An environment or attribute asks for a precision mode that does not exist. " + _PACKAGE,
    ),
    Status(
        561107,
        "ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND",
        "the operator package path is missing",
        "ASCEND_OPP_PATH is not set or does not exist: source the toolkit's set_env.sh; gmmfr doctor shows the variables.",
    ),
    Status(
        561108, "ACLNN_ERR_INNER_LOAD_JSON_FAILED", "a kernel description file could not be read", _PACKAGE
    ),
    Status(
        561109,
        "ACLNN_ERR_INNER_JSON_VALUE_NOT_FOUND",
        "a value is missing in a kernel description file",
        _PACKAGE,
    ),
    Status(561110, "ACLNN_ERR_INNER_JSON_FORMAT_INVALID", "a kernel description file is malformed", _PACKAGE),
    Status(
        561111,
        "ACLNN_ERR_INNER_JSON_DTYPE_INVALID",
        "a kernel description file names an invalid dtype",
        _PACKAGE,
    ),
    Status(
        561112, "ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND", "the kernel package is not installed", _PACKAGE
    ),
    Status(561113, "ACLNN_ERR_INNER_OP_FILE_INVALID", "an operator file is invalid", _PACKAGE),
    Status(561114, "ACLNN_ERR_INNER_ATTR_NUM_OUT_OF_BOUND", "too many attributes", _PACKAGE),
    Status(561115, "ACLNN_ERR_INNER_ATTR_LEN_NOT_ENOUGH", "an attribute is too short", _PACKAGE),
    Status(
        561116,
        "ACLNN_ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE",
        "a kernel description file has too many inputs",
        _PACKAGE,
    ),
    Status(
        561117,
        "ACLNN_ERR_INNER_INPUT_JSON_IS_NULL",
        "an input of a kernel description file is null",
        _PACKAGE,
    ),
    Status(
        561118,
        "ACLNN_ERR_INNER_STATIC_WORKSPACE_INVALID",
        "the static workspace of a kernel is invalid",
        _PACKAGE,
    ),
    Status(
        561119,
        "ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID",
        "the static block dim of a kernel is invalid",
        _PACKAGE,
    ),
    Status(
        561201, "ACLNN_ERR_INNER_RUNTIME_HANDLE_INVALID", "an internal runtime handle is invalid", _HANDLE
    ),
)

_ACL = (
    Status(
        100000,
        "ACL_ERROR_INVALID_PARAM",
        "invalid parameter",
        "A null or out-of-range argument of a runtime call.",
    ),
    Status(
        100001,
        "ACL_ERROR_UNINITIALIZE",
        "ACL is not initialised",
        "Call aclInit (or use a Plan, which does) before any other call.",
    ),
    Status(
        100002,
        "ACL_ERROR_REPEAT_INITIALIZE",
        "ACL is already initialised",
        "Another library of the process, for example torch_npu, called aclInit first. Harmless: go on.",
    ),
    Status(
        100003,
        "ACL_ERROR_INVALID_FILE",
        "invalid file",
        "A configuration or operator file cannot be read: check its path and rights.",
    ),
    Status(100024, "ACL_ERROR_OP_NOT_FOUND", "operator not found", _PACKAGE),
    Status(100025, "ACL_ERROR_OP_LOAD_FAILED", "operator could not be loaded", _PACKAGE),
    Status(
        100026,
        "ACL_ERROR_UNSUPPORTED_DATA_TYPE",
        "unsupported data type",
        "Run gmmfr validate: it names the dtype each argument takes on this platform.",
    ),
    Status(
        100027,
        "ACL_ERROR_FORMAT_NOT_MATCH",
        "format does not match",
        "Run gmmfr validate: it names the format each argument takes.",
    ),
    Status(100029, "ACL_ERROR_KERNEL_NOT_FOUND", "kernel not found", _PACKAGE),
    Status(
        100037,
        "ACL_ERROR_REPEAT_FINALIZE",
        "ACL is already finalised",
        "aclFinalize ran twice, or before the last handle was released.",
    ),
    Status(
        100039,
        "ACL_ERROR_COMPILING_STUB_MODE",
        "a stub library was loaded",
        "The linker found the toolkit's devlib or stub directory first: put the runtime's lib64 in front of it in LD_LIBRARY_PATH.",
    ),
    Status(
        148049,
        "ACL_ERROR_INVALID_OPP_PATH",
        "the operator package path is invalid",
        "ASCEND_OPP_PATH does not exist: source the toolkit's set_env.sh.",
    ),
    Status(
        148050, "ACL_ERROR_OP_UNSUPPORTED_DYNAMIC", "the operator does not support dynamic shapes", _PACKAGE
    ),
    Status(
        148051,
        "ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED",
        "related resources are not released",
        "Destroy tensors, executors and streams before the context.",
    ),
    Status(200000, "ACL_ERROR_BAD_ALLOC", "host memory could not be allocated", "The host is out of memory."),
    Status(
        200001,
        "ACL_ERROR_API_NOT_SUPPORT",
        "the call is not supported",
        "This CANN release or device lacks the function; gmmfr doctor shows the release.",
    ),
    Status(
        200002,
        "ACL_ERROR_INVALID_DEVICE",
        "invalid device",
        "The device id does not exist, or ASCEND_RT_VISIBLE_DEVICES hides it.",
    ),
    Status(
        200003,
        "ACL_ERROR_MEMORY_ADDRESS_UNALIGNED",
        "unaligned address",
        "Device addresses should be 32-byte aligned: pass the start of an aclrtMalloc block.",
    ),
    Status(
        200004,
        "ACL_ERROR_RESOURCE_NOT_MATCH",
        "resource does not match",
        "A stream or event of another context or device.",
    ),
    Status(200005, "ACL_ERROR_INVALID_RESOURCE_HANDLE", "invalid handle", _HANDLE),
    Status(
        200006,
        "ACL_ERROR_FEATURE_UNSUPPORTED",
        "feature unsupported",
        "This device or release lacks the feature; gmmfr doctor shows both.",
    ),
    Status(
        300000,
        "ACL_ERROR_STORAGE_OVER_LIMIT",
        "storage over its limit",
        "A configured limit is reached: see the log for which.",
    ),
    Status(500000, "ACL_ERROR_INTERNAL_ERROR", "internal error", _REPORT),
    Status(500001, "ACL_ERROR_FAILURE", "internal failure", _REPORT),
    Status(500002, "ACL_ERROR_GE_FAILURE", "the graph engine failed", _REPORT),
    Status(500003, "ACL_ERROR_RT_FAILURE", "the runtime failed", _REPORT),
    Status(500004, "ACL_ERROR_DRV_FAILURE", "the driver failed", _DEVICE),
    Status(
        500005,
        "ACL_ERROR_PROFILING_FAILURE",
        "profiling failed",
        "Switch profiling off to see whether the call itself works.",
    ),
    Status(
        107000,
        "ACL_ERROR_RT_PARAM_INVALID",
        "invalid parameter of a runtime call",
        "A null pointer, a size of 0 or an enum value out of range.",
    ),
    Status(
        107001,
        "ACL_ERROR_RT_INVALID_DEVICEID",
        "invalid device id",
        "The id is not below the device count; ASCEND_RT_VISIBLE_DEVICES renumbers devices.",
    ),
    Status(
        107002,
        "ACL_ERROR_RT_CONTEXT_NULL",
        "no context in this thread",
        "Contexts belong to threads: call aclrtSetDevice in this thread first. After a fork the child has none: use spawn.",
    ),
    Status(
        107003,
        "ACL_ERROR_RT_STREAM_CONTEXT",
        "the stream is not of this context",
        "The stream was created on another device or in another context: make it current first.",
    ),
    Status(
        107008,
        "ACL_ERROR_RT_ADDR_UNALIGNED",
        "unaligned address",
        "Device addresses should be 32-byte aligned: pass the start of an aclrtMalloc block.",
    ),
    Status(
        107016,
        "ACL_ERROR_RT_INVALID_MEMORY_TYPE",
        "wrong memory type",
        "A host pointer where a device pointer is needed, or the copy kind is reversed.",
    ),
    Status(107017, "ACL_ERROR_RT_INVALID_HANDLE", "invalid handle", _HANDLE),
    Status(
        107018,
        "ACL_ERROR_RT_INVALID_MALLOC_TYPE",
        "invalid allocation policy",
        "The policy does not exist on this device: use huge-first.",
    ),
    Status(
        107019,
        "ACL_ERROR_RT_WAIT_TIMEOUT",
        "waiting timed out",
        "The device did not finish in the given time: raise the time or look for a hung kernel.",
    ),
    Status(
        107020,
        "ACL_ERROR_RT_TASK_TIMEOUT",
        "a task timed out",
        "A kernel did not finish: see the device log. " + _REPORT,
    ),
    Status(
        107021,
        "ACL_ERROR_RT_SYSPARAMOPT_NOT_SET",
        "the system option is not set",
        "Reading an option, such as determinism, that nobody has set. Treat it as off.",
    ),
    Status(
        107022,
        "ACL_ERROR_RT_DEVICE_TASK_ABORT",
        "tasks on the device were aborted",
        "Another error came before: look for the first one in the log.",
    ),
    Status(
        107023,
        "ACL_ERROR_RT_STREAM_ABORT",
        "the stream was aborted",
        "Another error came before: look for the first one in the log.",
    ),
    Status(
        207000,
        "ACL_ERROR_RT_FEATURE_NOT_SUPPORT",
        "feature unsupported",
        "This device or release lacks the feature; gmmfr doctor shows both.",
    ),
    Status(
        207001,
        "ACL_ERROR_RT_MEMORY_ALLOCATION",
        "device memory could not be allocated",
        "Out of device memory: free tensors or use a smaller shape. Atlas A2/A3 W4A8 alone asks for about 20 MiB + 4 MiB per cube core of workspace.",
    ),
    Status(
        207002,
        "ACL_ERROR_RT_MEMORY_FREE",
        "device memory could not be freed",
        "The pointer was freed before or is not the start of a block.",
    ),
    Status(
        207004,
        "ACL_ERROR_RT_NO_DEVICE",
        "no device",
        "No NPU is visible: check npu-smi info and ASCEND_RT_VISIBLE_DEVICES.",
    ),
    Status(
        207005,
        "ACL_ERROR_RT_RESOURCE_ALLOC_FAIL",
        "a resource could not be allocated",
        "Too many streams, events or processes on the device.",
    ),
    Status(
        207006,
        "ACL_ERROR_RT_NO_PERMISSION",
        "no permission",
        "The user is not in the group that owns /dev/davinci*: add it to that group.",
    ),
    Status(
        207008,
        "ACL_ERROR_RT_NO_STREAM_RESOURCE",
        "no stream left",
        "Destroy streams that are no longer used.",
    ),
    Status(
        207012,
        "ACL_ERROR_RT_OVER_LIMIT",
        "over a limit",
        "A resource limit of the device is reached: see the log for which.",
    ),
    Status(
        207018,
        "ACL_ERROR_RT_DEVICE_OOM",
        "device out of memory",
        "Free tensors or use a smaller shape; another process may hold the memory (npu-smi info).",
    ),
    Status(507000, "ACL_ERROR_RT_INTERNAL_ERROR", "internal runtime error", _REPORT),
    Status(507001, "ACL_ERROR_RT_TS_ERROR", "the task scheduler failed", _DEVICE),
    Status(
        507008,
        "ACL_ERROR_RT_SOC_VERSION",
        "the SoC version does not match",
        "The library or kernel was built for another SoC; gmmfr doctor shows the device's name.",
    ),
    Status(507010, "ACL_ERROR_RT_LOST_HEARTBEAT", "the device lost its heartbeat", _DEVICE),
    Status(
        507011,
        "ACL_ERROR_RT_MODEL_EXECUTE",
        "executing a model failed",
        "Another error came before: look for the first one in the log.",
    ),
    Status(
        507014,
        "ACL_ERROR_RT_AICORE_TIMEOUT",
        "an AI core timed out",
        "A kernel did not finish. For this operator look at group_list first: a negative sum makes a loop of about 4*10^9 rows.",
    ),
    Status(507015, "ACL_ERROR_RT_AICORE_EXCEPTION", "an AI core raised an exception", _OUT_OF_BOUNDS),
    Status(507016, "ACL_ERROR_RT_AICORE_TRAP_EXCEPTION", "an AI core trapped", _OUT_OF_BOUNDS),
    Status(507018, "ACL_ERROR_RT_AICPU_EXCEPTION", "an AI CPU raised an exception", _REPORT),
    Status(507033, "ACL_ERROR_RT_DEV_SETUP_ERROR", "the device could not be set up", _DEVICE),
    Status(
        507034,
        "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT",
        "a vector core timed out",
        "A kernel did not finish. For this operator look at group_list first: a negative sum makes a loop of about 4*10^9 rows.",
    ),
    Status(507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION", "a vector core raised an exception", _OUT_OF_BOUNDS),
    Status(507042, "ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW", "an AI core read out of bounds", _OUT_OF_BOUNDS),
    Status(
        507043, "ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW", "an AI core wrote out of bounds", _OUT_OF_BOUNDS
    ),
    Status(
        507044,
        "ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW",
        "a vector core read out of bounds",
        _OUT_OF_BOUNDS,
    ),
    Status(
        507045,
        "ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW",
        "a vector core wrote out of bounds",
        _OUT_OF_BOUNDS,
    ),
    Status(
        507046,
        "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT",
        "synchronising the stream timed out",
        "The device did not finish in the given time: raise the time or look for a hung kernel.",
    ),
    Status(507053, "ACL_ERROR_RT_DEVICE_MEM_ERROR", "device memory error", _DEVICE),
    Status(507054, "ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR", "uncorrectable HBM error", _DEVICE),
    Status(507899, "ACL_ERROR_RT_DRV_INTERNAL_ERROR", "internal driver error", _DEVICE),
    Status(507901, "ACL_ERROR_RT_SOCKET_CLOSE", "the connection to the device closed", _DEVICE),
)

#: Code to row; 0 is ``ACLNN_SUCCESS`` (the runtime calls the same code ``ACL_ERROR_NONE``).
STATUSES: dict[int, Status] = {row.code: row for row in (*_ACLNN, *_ACL)}


def status_name(code: int) -> str:
    """The vendor's enumerator of ``code``, or ``UNKNOWN_STATUS_<code>``."""
    row = STATUSES.get(code)
    return f"UNKNOWN_STATUS_{code}" if row is None else row.name


def message_prefix(code: int) -> str | None:
    """The prefix of the library's message for an ``aclnnStatus``: by its leading digit (op_log.h)."""
    return {1: "EZ1001", 3: "EZ9903", 5: "EZ9999"}.get(code // 100000) if 100000 <= code < 1000000 else None
