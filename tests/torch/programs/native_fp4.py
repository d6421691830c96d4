"""MXFP4 in torch's packed dtype and as bytes with numbers, scales as E8M0 and as bytes; prints verdicts."""

import json

import torch
import torch_npu

import gmmfr.torch_op  # noqa: F401
from gmmfr.torch_call import torch_arguments
from reference import compare, golden, make_case

NUMBERS = {"scale_dtype": torch_npu.float8_e8m0fnu, "pertoken_scale_dtype": torch_npu.float8_e8m0fnu}


def on_device(tensor, dtype):
    """The tensor on the device as ``dtype`` of one byte; a transposed view stays one."""
    if tensor.is_contiguous():
        return tensor.view(dtype).npu()
    return tensor.transpose(1, 2).view(dtype).npu().transpose(1, 2)


def verdicts(name, native, scale_bytes):
    operands = make_case(name)
    (x, w, group_list), named = torch_arguments(operands)
    scales = {key: named.pop(key) for key in ("scale", "pertoken_scale")}
    named = {key: value.npu() if isinstance(value, torch.Tensor) else value for key, value in named.items()}
    kind = torch.uint8 if scale_bytes else torch.float8_e8m0fnu
    named.update({key: on_device(value, kind) for key, value in scales.items()})
    named.update(NUMBERS if scale_bytes else {})
    if native:
        del named["x_dtype"], named["w_dtype"]
    kind = torch.float4_e2m1fn_x2 if native else torch.uint8
    positional = on_device(x, kind), on_device(w, kind), group_list.npu()
    reference = golden(operands, magnitudes=True)
    ways = torch_npu.npu_grouped_matmul_finalize_routing, torch.ops.gmmfr.grouped_matmul_finalize_routing
    outs = [way(*positional, **named).cpu().numpy() for way in ways]
    return [compare(out, reference.out, reference).verdict for out in outs]


found = [
    verdicts(name, native, scale_bytes)
    for name in ("c15", "c16")
    for native in (False, True)
    for scale_bytes in (False, True)
]
print(json.dumps(found))
