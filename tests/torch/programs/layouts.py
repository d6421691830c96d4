"""Tensors that are parts of larger ones: torch_npu and the binding on the device against the golden.

Arguments: a case.  Prints for each layout the verdicts of torch_npu and of the binding.
"""

import json
import sys

import torch
import torch_npu

from aclnn_bindings import Plan, find_library, grouped_matmul_finalize_routing_v3
from gmmfr.torch_call import torch_arguments
from reference import Problem, compare, golden, make_case

INPUTS = ("scale", "bias", "offset", "pertoken_scale", "shared_input", "logit", "row_index")
OPERANDS = make_case(sys.argv[1])
REFERENCE = golden(OPERANDS, magnitudes=True)


def columns_of_a_wider(tensor):
    """The same values as columns 32 to 32 + k of a wider tensor."""
    wide = torch.zeros(tensor.shape[0], tensor.shape[1] + 64, dtype=torch.uint8).view(tensor.dtype)
    wide[:, 32 : 32 + tensor.shape[1]] = tensor
    return wide.npu()[:, 32 : 32 + tensor.shape[1]]


def experts_of_more(tensor):
    """The same experts as the middle of a tensor with two more on either side."""
    raw = tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor
    more = torch.zeros(tensor.shape[0] + 4, *tensor.shape[1:], dtype=raw.dtype)
    more[2:-2] = raw
    return more.view(tensor.dtype).npu()[2:-2]


def transposed_in_memory(tensor):
    """The same weights, (e, k, n), stored as (e, n, k); their scales likewise."""
    raw = tensor.view(torch.uint8)
    return raw.transpose(1, 2).contiguous().view(tensor.dtype).npu().transpose(1, 2)


def call_of(positional, named):
    call = dict(zip(("x1", "x2", "group_list"), positional, strict=True))
    call.update({name: named[name] for name in INPUTS if named[name] is not None})
    for name in ("shared_input_weight", "shared_input_offset", "group_list_type"):
        call[name] = named[name]
    return call


def verdict(out):
    return compare(out.cpu().numpy(), REFERENCE.out, REFERENCE).verdict


def examine(change):
    (x, w, group_list), named = torch_arguments(OPERANDS)
    parts = {"x1": x, "x2": w, "scale": named["scale"]}
    placed = {name: change[name](value) if name in change else value.npu() for name, value in parts.items()}
    named = {name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in named.items()}
    named["scale"] = placed["scale"]
    call = call_of((placed["x1"], placed["x2"], group_list.npu()), named)
    found = {"binding": verdict(grouped_matmul_finalize_routing_v3(**call, batch=OPERANDS.batch))}
    problem = Problem.from_arrays(platform=OPERANDS.problem.platform, batch=OPERANDS.batch, **call)
    tensors = {name: value for name, value in call.items() if isinstance(value, torch.Tensor)}
    with Plan(problem, tensors, library=find_library()) as plan:
        plan.execute()
        found["plan"] = verdict(plan.result())
    vendor = torch_npu.npu_grouped_matmul_finalize_routing(
        placed["x1"], placed["x2"], call["group_list"], **named
    )
    found["torch_npu"] = verdict(vendor)
    return found


LAYOUTS = {
    "columns": {"x1": columns_of_a_wider},
    "experts": {"x2": experts_of_more},
    "expert scales": {"scale": experts_of_more},
}
if OPERANDS.problem.platform == "ascend950":
    LAYOUTS["transposed"] = {"x2": transposed_in_memory, "scale": transposed_in_memory}
print(json.dumps({name: examine(change) for name, change in LAYOUTS.items()}))
