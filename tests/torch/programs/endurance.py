"""Many calls through torch_npu and the binding; prints what was alive and how large the process was."""

import ctypes
import json
import os
import sys

import torch
import torch_npu

from aclnn_bindings import grouped_matmul_finalize_routing_v3
from gmmfr.torch_call import torch_arguments
from reference import make_case

CALLS, WARM = int(sys.argv[2]), 200
INPUTS = ("scale", "bias", "offset", "pertoken_scale", "shared_input", "logit", "row_index")


class Statistics(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "liveBytes peakBytes liveAllocations liveHostAllocations liveTensors liveIntArrays liveExecutors "
            "liveStreams liveEvents liveContexts phase1Calls cacheHits kernelsRun"
        ).split()
    ]


def snapshot():
    torch.npu.synchronize()
    statistics = Statistics()
    runtime.gmmfrSimGetStatistics(ctypes.byref(statistics))
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    live = {name: getattr(statistics, name) for name, _ in Statistics._fields_ if name.startswith("live")}
    return {"live": live, "kernels": statistics.kernelsRun, "resident": resident,
            "allocated": torch.npu.memory_allocated()}  # fmt: skip


runtime = ctypes.CDLL("libascendcl.so")
operands = make_case(sys.argv[1])
positional, named = torch_arguments(operands, "npu")
host_x1 = positional[0].cpu()
call = {name: named[name] for name in INPUTS if named[name] is not None}
call.update(x2=positional[1], group_list=positional[2], batch=operands.batch)
call.update({name: named[name] for name in ("shared_input_weight", "shared_input_offset", "group_list_type")})


def vendor():
    return torch_npu.npu_grouped_matmul_finalize_routing(host_x1.npu(), *positional[1:], **named)


def own():
    return grouped_matmul_finalize_routing_v3(x1=positional[0], **call)


found = {}
for title, run in (("torch_npu", vendor), ("binding", own)):
    first = run().cpu()
    for _ in range(WARM):
        run()
    before, wrong = snapshot(), 0
    for _ in range(CALLS):
        out = run()
        wrong += not torch.equal(out.cpu(), first)
    found[title] = {"before": before, "after": snapshot(), "wrong": wrong}
print(json.dumps(found))
