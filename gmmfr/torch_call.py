"""One call as torch speaks it: the arguments of ``torch_npu.npu_grouped_matmul_finalize_routing``.

torch_npu has no transpose flags: a transposed weight is a view by strides, and so is its scale.
"""

from __future__ import annotations

from typing import Any

from reference.formats import number_format
from reference.operands import Operands
from reference.problem import Problem
from reference.torch_tensors import tensor_of

#: torch_npu's numbers for formats that torch lacks are 256 + aclDataType.
NPU_DTYPE_BASE = 256
FLOAT4 = "float4_e2m1fn"


def npu_dtype(name: str) -> int:
    """torch_npu's number of a format, as ``x_dtype`` and the like take it."""
    return NPU_DTYPE_BASE + number_format(name).acl


def inexpressible(problem: Problem) -> str | None:
    """What of this call torch_npu's operator has no argument for; None where it can say everything."""
    if problem.attributes.transpose_x1:
        return "torch_npu's operator has no transpose_x1"
    if problem.attributes.dtype != 0:
        return f"torch_npu's operator gives float32 only, not dtype {problem.attributes.dtype}"
    if problem.batch == 0 and problem.m != 0:
        return "torch_npu's operator reads output_bs 0 as m rows, so it cannot give no rows"
    given = [name for name in ("antiquant_scale", "antiquant_offset") if problem.arguments[name] is not None]
    return f"torch_npu's operator has no {given[0]}" if given else None


def torch_arguments(operands: Operands, device: str = "cpu") -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of torch_npu's operator for ``operands``, its tensors on ``device``.

    FP4 goes as bytes with ``x_dtype`` and ``w_dtype``, as torch_npu's own examples have it.
    """
    tensors = {name: tensor_of(array).to(device) for name, array in operands.arrays.items()}
    attributes = operands.attributes
    if attributes.transpose_x2:
        tensors["x2"] = tensors["x2"].transpose(1, 2)
        tensors["scale"] = tensors["scale"].transpose(1, 2)
    call: dict[str, Any] = {
        name: tensors.get(name)
        for name in ("scale", "bias", "offset", "pertoken_scale", "shared_input", "logit", "row_index")
    }
    call["shared_input_weight"] = attributes.shared_input_weight
    call["shared_input_offset"] = attributes.shared_input_offset
    call["output_bs"] = operands.batch
    call["group_list_type"] = attributes.group_list_type
    if attributes.tuning_config is not None:
        call["tuning_config"] = list(attributes.tuning_config)
    for key, name in (("x_dtype", "x1"), ("w_dtype", "x2")):
        if operands.problem.spec(name).dtype == FLOAT4:
            call[key] = npu_dtype(FLOAT4)
    return (tensors["x1"], tensors["x2"], tensors["group_list"]), call
