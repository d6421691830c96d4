"""The operator for torch programs: ``torch.ops.gmmfr.grouped_matmul_finalize_routing``.

Importing this module registers it.  Arguments, order and defaults are those of
``torch_npu.npu_grouped_matmul_finalize_routing``, so that switching is one line.  CPU tensors are computed on
the simulator (int8 ``x`` as an Atlas A2, FP8 and FP4 as an Ascend 950), NPU tensors by the library that
torch_npu uses.  No input is changed: ``x`` is protected from the Atlas A2/A3 kernel, which overwrites it.
"""

from __future__ import annotations

from typing import Any

from aclnn_bindings.torch_support import import_torch
from gmmfr.torch_call import NPU_DTYPE_BASE
from reference.formats import FORMATS

torch = import_torch()

NAME = "gmmfr::grouped_matmul_finalize_routing"
SCHEMA = (
    "(Tensor x, Tensor w, Tensor group_list, *, Tensor? scale=None, Tensor? bias=None, Tensor? offset=None, "
    "Tensor? pertoken_scale=None, Tensor? shared_input=None, Tensor? logit=None, Tensor? row_index=None, "
    "ScalarType? dtype=None, float? shared_input_weight=1.0, int? shared_input_offset=0, int? output_bs=0, "
    "int? group_list_type=1, int[]? tuning_config=None, int? x_dtype=None, int? w_dtype=None, "
    "int? scale_dtype=None, int? pertoken_scale_dtype=None) -> Tensor"
)

_WORDS_PER_INT32 = 8
_NO_NUMBERS = (None,) * 4
_BY_NUMBER = {NPU_DTYPE_BASE + row.acl: row.name for row in FORMATS.values()}
#: The simulator that CPU tensors go to, by what x is.
_SOC_OF_INT8, _SOC_OF_MX = "Ascend910B2", "Ascend950PR_9579"


def _format_of(argument: str, number: int | None) -> str | None:
    """The format that a number of torch_npu (``torch_npu.float4_e2m1fn_x2``, say) stands for."""
    if number is None:
        return None
    if number not in _BY_NUMBER:
        known = ", ".join(f"{key} {name}" for key, name in _BY_NUMBER.items())
        raise ValueError(f"{argument}: {number} is no number of torch_npu for a format; known: {known}")
    return _BY_NUMBER[number]


def _hints(
    x_dtype: int | None, w_dtype: int | None, scale_dtype: int | None, pertoken_scale_dtype: int | None
) -> dict[str, str]:
    numbers = {
        "x1": ("x_dtype", x_dtype),
        "x2": ("w_dtype", w_dtype),
        "scale": ("scale_dtype", scale_dtype),
        "pertoken_scale": ("pertoken_scale_dtype", pertoken_scale_dtype),
    }
    found = {name: _format_of(argument, number) for name, (argument, number) in numbers.items()}
    return {name: hint for name, hint in found.items() if hint is not None}


def _packs_fp4(tensor: Any, number: int | None) -> bool:
    named = _format_of("x_dtype or w_dtype", number) == "float4_e2m1fn"
    return named or str(tensor.dtype).endswith("float4_e2m1fn_x2")


def _check(x: Any, w: Any, dtype: Any, output_bs: int | None, group_list_type: int | None) -> None:
    """What torch_npu checks before its library is asked."""
    if x.dim() != 2 or w.dim() != 3:
        raise ValueError(f"x, w: expected 2 and 3 dimensions, got {x.dim()} and {w.dim()}")
    if dtype not in (None, torch.float32):
        raise ValueError(f"dtype: expected None or torch.float32, got {dtype}")
    if output_bs is not None and output_bs < 0:
        raise ValueError(
            f"output_bs: expected rows of the output, or 0 for as many as x has, got {output_bs}"
        )
    if group_list_type not in (None, 0, 1):
        raise ValueError(f"group_list_type: expected 0 (running totals) or 1 (counts), got {group_list_type}")


def _columns(x: Any, w: Any, fp4: bool) -> Any:
    """n: w counts INT4 in words of eight; FP4 lies in pairs along n, or along k in a transposed view."""
    if w.dtype == torch.int32:
        return w.size(-1) * _WORDS_PER_INT32
    transposed = x.size(-1) == w.size(-2)
    return w.size(-1) * 2 if fp4 and not transposed else w.size(-1)


def _library(x: Any, w: Any) -> Any:
    """The simulator for tensors on the CPU; None for others: the binding then takes torch_npu's library."""
    if not x.is_cpu:
        return None
    from aclnn_bindings import simulator

    w4a8 = torch.int8 in (x.dtype, w.dtype) or w.dtype == torch.int32  # either says which is meant
    return simulator(_SOC_OF_INT8 if w4a8 else _SOC_OF_MX)


def _compute(
    x: Any,
    w: Any,
    group_list: Any,
    *,
    scale: Any = None,
    bias: Any = None,
    offset: Any = None,
    pertoken_scale: Any = None,
    shared_input: Any = None,
    logit: Any = None,
    row_index: Any = None,
    dtype: Any = None,
    shared_input_weight: float | None = 1.0,
    shared_input_offset: int | None = 0,
    output_bs: int | None = 0,
    group_list_type: int | None = 1,
    tuning_config: list[int] | None = None,
    x_dtype: int | None = None,
    w_dtype: int | None = None,
    scale_dtype: int | None = None,
    pertoken_scale_dtype: int | None = None,
) -> Any:
    from aclnn_bindings import grouped_matmul_finalize_routing_v3

    _check(x, w, dtype, output_bs, group_list_type)
    numbers = (x_dtype, w_dtype, scale_dtype, pertoken_scale_dtype)
    return grouped_matmul_finalize_routing_v3(
        x1=x,
        x2=w,
        scale=scale,
        bias=bias,
        offset=offset,
        pertoken_scale=pertoken_scale,
        group_list=group_list,
        shared_input=shared_input,
        logit=logit,
        row_index=row_index,
        batch=output_bs or x.size(0),
        dtypes=None if numbers == _NO_NUMBERS else _hints(*numbers),
        shared_input_weight=1.0 if shared_input_weight is None else shared_input_weight,
        shared_input_offset=shared_input_offset or 0,
        group_list_type=1 if group_list_type is None else group_list_type,
        tuning_config=tuning_config,
        library=_library(x, w),
    )


def _describe(
    x: Any,
    w: Any,
    group_list: Any,
    *,
    dtype: Any = None,
    output_bs: int | None = 0,
    group_list_type: int | None = 1,
    x_dtype: int | None = None,
    w_dtype: int | None = None,
    **_: Any,
) -> Any:
    """The output without the work: (output_bs or m, n) float32."""
    _check(x, w, dtype, output_bs, group_list_type)
    fp4 = _packs_fp4(x, x_dtype) and _packs_fp4(w, w_dtype)
    rows = output_bs if output_bs else x.size(0)
    return x.new_empty((rows, _columns(x, w, fp4)), dtype=torch.float32)


torch.library.define(NAME, SCHEMA, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order))
torch.library.impl(NAME, ("cpu", "privateuseone"), _compute)
torch.library.register_fake(NAME, _describe)

#: The operator: call it as torch_npu's.
grouped_matmul_finalize_routing = torch.ops.gmmfr.grouped_matmul_finalize_routing
