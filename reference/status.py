"""Every status code a caller of the operator can meet: its name, its meaning, what usually causes it.

``aclnnStatus`` comes from phase 1 and phase 2 (op_errno.h), ``aclError`` from the ACL runtime (acl_base.h,
acl_rt.h).  A test compares the names with ``include/``.  NumPy is not imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference.status_causes import DEVICE, HANDLE, PACKAGE, REPORT
from reference.status_runtime import RUNTIME

SUCCESS = 0
NULLPTR = 161001
INVALID = 161002
INNER_NULLPTR = 561103
INFER_SHAPE = 561001
TILING = 561002

#: What phase 1 returns for a call that it does not take: its checks, shape inference, or tiling (which reach
#: the caller as 561103).  Every other code is about the installation, the library, a handle or the device.
REFUSALS = frozenset({NULLPTR, INVALID, INFER_SHAPE, TILING, INNER_NULLPTR})


@dataclass(frozen=True)
class Status:
    """One code: the vendor's enumerator, what it means, what usually causes it and what to do."""

    code: int
    name: str
    meaning: str
    cause: str


#: (code, enumerator, meaning, usual cause and what to do)
_ACLNN: tuple[tuple[int, str, str, str], ...] = (
    (
        SUCCESS,
        "ACLNN_SUCCESS",
        "success",
        "Phase 1 accepted the call. Values on the device are never checked.",
    ),
    (
        NULLPTR,
        "ACLNN_ERR_PARAM_NULLPTR",
        "a required argument is null, or one that must be null is not",
        "The operator requires x1, x2, scale, pertoken_scale, group_list, logit, row_index and out, on "
        "Atlas A2/A3 also bias (for W4A8 it is 8*sum_k(w*scale), not the model's bias). The same code "
        "comes back for antiquant_scale or antiquant_offset that are not null, and on Ascend 950 for an"
        " offset. One call names all of them in its message, except out, which fails without one. Run "
        "gmmfr validate for the list.",
    ),
    (
        INVALID,
        "ACLNN_ERR_PARAM_INVALID",
        "an argument has a wrong dtype, shape, format or value",
        "Any dtype, rank, shape, format or attribute rule of phase 1; several are refused without a "
        "message. Usual: x2 not INT32 on Atlas A2/A3, K of x1 and x2 differ, scale not (e, 1, n), "
        "shared_input_offset + rows above the rows of out, a scale that is not laid out like the weight"
        " on Ascend 950. Run gmmfr validate: it lists every rule that is broken, what was expected and "
        "what came.",
    ),
    (
        361001,
        "ACLNN_ERR_RUNTIME_ERROR",
        "a call to the runtime failed",
        "The runtime's own code is in the log. " + DEVICE,
    ),
    (
        561000,
        "ACLNN_ERR_INNER",
        "internal error",
        (
            "aclSetAclOpExecutorRepeatable returns it for an executor that came from the phase-1 cache, "
            "and, on releases before mid 2026, for every call with offset: run it once instead. Otherwise: "
        )
        + REPORT,
    ),
    (
        INFER_SHAPE,
        "ACLNN_ERR_INNER_INFERSHAPE_ERROR",
        "shape inference failed",
        ("Seen in the log under 561103: shapes that passed the first checks disagree. Run gmmfr validate. ")
        + REPORT,
    ),
    (
        TILING,
        "ACLNN_ERR_INNER_TILING_ERROR",
        "tiling failed",
        (
            "The shape is outside what the kernel can cut up: K above 18432 on Atlas A2/A3, out with more "
            "rows than m or an empty x2 on Ascend 950. Run gmmfr validate; where it finds nothing, gmmfr "
            "doctor: a wrong environment was reported with this code, too. Otherwise: "
        )
        + REPORT,
    ),
    (
        561003,
        "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
        "no kernel binary for this call",
        "The kernel package of this SoC is missing or older than the operator library. " + PACKAGE,
    ),
    (
        561101,
        "ACLNN_ERR_INNER_CREATE_EXECUTOR",
        "the executor could not be created",
        "Host memory, or the library was not initialised. " + REPORT,
    ),
    (
        561102,
        "ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR",
        "the executor was not taken over",
        "An internal error of the library: the unique executor was not released. " + REPORT,
    ),
    (
        INNER_NULLPTR,
        "ACLNN_ERR_INNER_NULLPTR",
        "an internal step returned null",
        "Not one of your pointers: shape inference or tiling refused the call after the argument "
        "checks. On Ascend 950: out with more rows than x1, an empty x2 (e = 0), NZ weight with a wrong"
        " storage shape. Also a NULL executor passed to aclSetAclOpExecutorRepeatable or "
        "aclDestroyAclOpExecutor. Run gmmfr validate.",
    ),
    (561104, "ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE", "wrong number or size of attributes", PACKAGE),
    (561105, "ACLNN_ERR_INNER_KEY_CONFLICT", "two kernels share one key", PACKAGE),
    (
        561106,
        "ACLNN_ERR_INNER_INVALID_IMPL_MODE",
        "invalid implementation mode",
        "An environment or attribute asks for a precision mode that does not exist. " + PACKAGE,
    ),
    (
        561107,
        "ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND",
        "the operator package path is missing",
        "ASCEND_OPP_PATH is not set or does not exist: source the toolkit's set_env.sh; gmmfr doctor "
        "shows the variables.",
    ),
    (561108, "ACLNN_ERR_INNER_LOAD_JSON_FAILED", "a kernel description file could not be read", PACKAGE),
    (
        561109,
        "ACLNN_ERR_INNER_JSON_VALUE_NOT_FOUND",
        "a value is missing in a kernel description file",
        PACKAGE,
    ),
    (561110, "ACLNN_ERR_INNER_JSON_FORMAT_INVALID", "a kernel description file is malformed", PACKAGE),
    (
        561111,
        "ACLNN_ERR_INNER_JSON_DTYPE_INVALID",
        "a kernel description file names an invalid dtype",
        PACKAGE,
    ),
    (561112, "ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND", "the kernel package is not installed", PACKAGE),
    (561113, "ACLNN_ERR_INNER_OP_FILE_INVALID", "an operator file is invalid", PACKAGE),
    (561114, "ACLNN_ERR_INNER_ATTR_NUM_OUT_OF_BOUND", "too many attributes", PACKAGE),
    (561115, "ACLNN_ERR_INNER_ATTR_LEN_NOT_ENOUGH", "an attribute is too short", PACKAGE),
    (
        561116,
        "ACLNN_ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE",
        "a kernel description file has too many inputs",
        PACKAGE,
    ),
    (561117, "ACLNN_ERR_INNER_INPUT_JSON_IS_NULL", "an input of a kernel description file is null", PACKAGE),
    (
        561118,
        "ACLNN_ERR_INNER_STATIC_WORKSPACE_INVALID",
        "the static workspace of a kernel is invalid",
        PACKAGE,
    ),
    (
        561119,
        "ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID",
        "the static block dim of a kernel is invalid",
        PACKAGE,
    ),
    (561201, "ACLNN_ERR_INNER_RUNTIME_HANDLE_INVALID", "an internal runtime handle is invalid", HANDLE),
)

#: Code to row; 0 is ``ACLNN_SUCCESS`` (the runtime calls the same code ``ACL_ERROR_NONE``).
STATUSES: dict[int, Status] = {row[0]: Status(*row) for row in (*_ACLNN, *RUNTIME)}


def status_name(code: int) -> str:
    """The vendor's enumerator of ``code``, or ``UNKNOWN_STATUS_<code>``."""
    row = STATUSES.get(code)
    return f"UNKNOWN_STATUS_{code}" if row is None else row.name


def message_prefix(code: int) -> str | None:
    """The prefix of the library's message for an ``aclnnStatus``: by its leading digit (op_log.h)."""
    return {1: "EZ1001", 3: "EZ9903", 5: "EZ9999"}.get(code // 100000) if 100000 <= code < 1000000 else None
