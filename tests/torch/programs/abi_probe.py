"""Every argument of phase 1 as it arrives: from torch_npu, from the binding, and what was asked for.

Prints a list of differences.  Arguments: names of cases.
"""

import ctypes
import json
import math
import sys

import torch
import torch_npu

from aclnn_bindings import Plan, find_library
from gmmfr.torch_call import torch_arguments
from reference import Problem, make_case
from reference.torch_tensors import describe_tensor

NAMES = ("scale", "bias", "offset", "pertoken_scale", "shared_input", "logit", "row_index")
C_NAMES = {
    "x1": "x1", "x2": "x2", "scale": "scale", "bias": "bias", "offset": "offset",
    "antiquant_scale": "antiquantScale", "antiquant_offset": "antiquantOffset",
    "pertoken_scale": "pertokenScale", "group_list": "groupList", "shared_input": "sharedInput",
    "logit": "logit", "row_index": "rowIndex", "out": "out",
}  # fmt: skip
# From the vendor's headers, not from this project's tables.
ACL_DTYPES = {
    "float32": 0, "int8": 2, "int32": 3, "uint8": 4, "int64": 9, "bfloat16": 27,
    "float8_e5m2": 35, "float8_e4m3fn": 36, "float8_e8m0fnu": 37, "float4_e2m1fn": 40,
}  # fmt: skip
#: torch_npu names the plain format by the rank, the binding calls it ND; the operator treats all alike.
PLAIN = {3: 47, 4: 0, 5: 30}
ND = 2
SHARED = {"shared_input_weight": 1 / 3, "shared_input_offset": 1}

runtime = ctypes.CDLL("libascendcl.so")
runtime.gmmfrSimLastCall.restype = ctypes.c_char_p


def arrived():
    return json.loads(runtime.gmmfrSimLastCall())


def own_call(positional, named):
    call = dict(zip(("x1", "x2", "group_list"), positional, strict=True))
    call.update({name: named[name] for name in NAMES if named[name] is not None})
    hints = {"x1": "float4_e2m1fn", "x2": "float4_e2m1fn"} if "x_dtype" in named else {}
    return call, hints


def wanted(call, hints, operands, named):
    """The arguments as the caller means them: dims, strides and offset counted in elements."""
    tensors = {C_NAMES[name]: None for name in C_NAMES}
    for name, tensor in call.items():
        spec = describe_tensor(name, tensor, hints.get(name))
        tensors[C_NAMES[name]] = {
            "shape": list(spec.shape),
            "strides": list(spec.element_strides),
            "dtype": ACL_DTYPES[spec.dtype],
            "address": tensor.untyped_storage().data_ptr(),
            "offset": spec.offset,
        }
    shape = [operands.batch, operands.problem.n]
    tensors["out"] = {"shape": shape, "strides": [shape[1], 1], "dtype": 0, "offset": 0}
    return {
        "arguments": tensors,
        "dtype": 0,
        "sharedInputWeight": float(torch.tensor(named["shared_input_weight"], dtype=torch.float32)),
        "sharedInputOffset": named["shared_input_offset"],
        "transposeX1": False,
        "transposeX2": False,
        "groupListType": named["group_list_type"],
        "tuningConfig": named.get("tuning_config", []),
    }


def differences(who, got, asked):
    found = []
    for key, value in asked.items():
        seen = got[key]
        if key == "arguments":
            continue
        if key == "tuningConfig":
            seen = seen or []
        tolerance = 1e-7 if key == "sharedInputWeight" else 0.0  # it is printed with nine digits
        if seen != value and not (tolerance and math.isclose(seen, value, rel_tol=tolerance)):
            found.append(f"{who}: {key}: asked for {value}, arrived {seen}")
    for name, value in asked["arguments"].items():
        found += [
            f"{who}: {name}.{line}" for line in tensor_differences(who, name, got["arguments"][name], value)
        ]
    return found


def tensor_differences(who, name, got, asked):
    if asked is None or got is None:
        return [] if asked is got else [f" asked for {asked}, arrived {got}"]
    asked = dict(asked)
    asked["format"] = PLAIN.get(len(asked["shape"]), ND) if who == "torch_npu" else ND
    found = [f"{key}: asked for {asked[key]}, arrived {got[key]}" for key in asked if got[key] != asked[key]]
    if math.prod(got["storage_shape"]) < math.prod(asked["shape"]):
        found.append(f"storage_shape: {got['storage_shape']} is smaller than the view {asked['shape']}")
    return found


def probe(name):
    operands = make_case(name)
    positional, named = torch_arguments(operands, "npu")
    if named["shared_input"] is not None:
        named.update(SHARED)
    call, hints = own_call(positional, named)
    asked = wanted(call, hints, operands, named)
    torch_npu.npu_grouped_matmul_finalize_routing(*positional, **named)
    torch.npu.synchronize()
    vendor = arrived()
    problem = Problem.from_arrays(
        platform=operands.problem.platform,
        batch=operands.batch,
        dtypes=hints,
        **{key: named[key] for key in ("shared_input_weight", "shared_input_offset", "group_list_type")},
        tuning_config=named.get("tuning_config"),
        **call,
    )
    # consume_x1: the operator gets the caller's own x1, as torch_npu gives it
    with Plan(problem, call, library=find_library(), consume_x1=True, validate="off", repeatable=False):
        own = arrived()
    return [f"{name}: {line}" for who, got in (("torch_npu", vendor), ("binding", own))
            for line in differences(who, got, asked)]  # fmt: skip


def main():
    found = []
    for name in sys.argv[1:]:
        found += probe(name)
    print(json.dumps(found))


main()
