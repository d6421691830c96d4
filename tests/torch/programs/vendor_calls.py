"""Named cases on the simulated device: torch_npu, the binding and the custom operator, compared."""

import json
import sys

import torch
import torch_npu

import gmmfr.torch_op  # noqa: F401
from aclnn_bindings import Plan, find_library, grouped_matmul_finalize_routing_v3
from gmmfr.torch_call import torch_arguments
from reference import Problem, compare, golden, make_case

NAMES = ("scale", "bias", "offset", "pertoken_scale", "shared_input", "logit", "row_index")


def own_call(positional, named):
    """The arguments of torch_npu's operator under the vendor operator's names."""
    call = dict(zip(("x1", "x2", "group_list"), positional, strict=True))
    call.update({name: named[name] for name in NAMES if named[name] is not None})
    for name in ("shared_input_weight", "shared_input_offset", "group_list_type", "tuning_config"):
        if name in named:
            call[name] = named[name]
    if "x_dtype" in named:
        call["dtypes"] = {"x1": "float4_e2m1fn", "x2": "float4_e2m1fn"}
    return call


def run_plan(call, operands):
    """The result of the second of two runs of one plan, on the same tensors."""
    problem = Problem.from_arrays(platform=operands.problem.platform, batch=operands.batch, **call)
    tensors = {name: value for name, value in call.items() if isinstance(value, torch.Tensor)}
    with Plan(problem, tensors, library=find_library()) as plan:
        plan.execute()
        plan.execute()
        return plan.result()


def examine(name):
    operands = make_case(name)
    positional, named = torch_arguments(operands, "npu")
    call = own_call(positional, named)
    before = positional[0].cpu().view(torch.uint8)
    results = {
        "one-shot": grouped_matmul_finalize_routing_v3(**call, batch=operands.batch),
        "plan": run_plan(call, operands),
        "custom operator": torch.ops.gmmfr.grouped_matmul_finalize_routing(*positional, **named),
    }
    unchanged = torch.equal(positional[0].cpu().view(torch.uint8), before)
    vendor = torch_npu.npu_grouped_matmul_finalize_routing(*positional, **named)
    first = vendor.cpu()
    second = torch_npu.npu_grouped_matmul_finalize_routing(*positional, **named).cpu()
    reference = golden(operands, magnitudes=True)
    return {
        "case": name,
        "columns": first.shape[1],
        "verdict": compare(first.numpy(), reference.out, reference).verdict,
        "different": [key for key, value in results.items() if not torch.equal(value.cpu(), first)],
        "devices": sorted({str(value.device) for value in [vendor, *results.values()]}),
        "x1 unchanged by ours": unchanged,
        "second call equal": torch.equal(second, first),
        "second verdict": compare(second.numpy(), reference.out, reference).verdict,
    }


print(json.dumps([examine(name) for name in sys.argv[1:]]))
