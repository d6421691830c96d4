"""Two streams and an event between them, and the binding behind work that torch_npu has only queued."""

import json

import torch
import torch_npu

from aclnn_bindings import Plan, find_library
from gmmfr.torch_call import torch_arguments
from reference import Problem, make_case

ROUNDS = 60
writer, reader = torch.npu.Stream(), torch.npu.Stream()
source = [torch.full((1 << 20,), float(i)).npu() for i in range(4)]
buffer = torch.zeros(1 << 20, device="npu")
torch.npu.synchronize()
wrong = 0
for i in range(ROUNDS):
    written, read = torch.npu.Event(), torch.npu.Event()
    with torch.npu.stream(writer):
        buffer.copy_(source[(i + 1) % 4])
        buffer.copy_(source[i % 4])
        written.record()
    with torch.npu.stream(reader):
        reader.wait_event(written)
        taken = buffer.clone()
        read.record()
    writer.wait_event(read)
    read.synchronize()
    wrong += not torch.equal(taken.cpu(), source[i % 4].cpu())

# A kernel that takes a while: the launch returns before its event is reached.
positional, named = torch_arguments(
    make_case("c7" if "910" in torch.npu.get_device_name(0) else "case3"), "npu"
)
early = 0
for _ in range(5):
    done = torch.npu.Event()
    kept = torch_npu.npu_grouped_matmul_finalize_routing(*positional, **named)
    done.record()
    early += not done.query()
    done.synchronize()

# The binding runs after copies that torch_npu has queued on the host.
operands = make_case("c18_w4a8" if "910" in torch.npu.get_device_name(0) else "c18_mxfp8")
positional, named = torch_arguments(operands, "npu")
logits = [torch.full((operands.problem.m,), float(i + 1)).npu() for i in range(3)]
call = {"x1": positional[0], "x2": positional[1], "group_list": positional[2]}
call.update({k: v for k, v in named.items() if isinstance(v, torch.Tensor)})
call["logit"] = logits[0].clone()
problem = Problem.from_arrays(
    platform=operands.problem.platform,
    batch=operands.batch,
    shared_input_offset=named["shared_input_offset"],
    shared_input_weight=0.0,
    **call,
)
late, scratch = 0, torch.empty_like(logits[0])
with Plan(problem, call, library=find_library()) as plan:
    expected = []
    for logit in logits:
        call["logit"].copy_(logit)
        torch.npu.synchronize()
        plan.execute()
        expected.append(plan.result().cpu())
    for i in range(ROUNDS):
        for _ in range(200):  # torch_npu's own thread is busy for a while
            scratch.copy_(logits[0])
        call["logit"].copy_(logits[(i + 1) % 3])
        call["logit"].copy_(logits[i % 3])
        plan.execute()
        late += not torch.equal(plan.result().cpu(), expected[i % 3])
distinct = len({tuple(t.flatten().tolist()) for t in expected})
print(json.dumps({"wrong": wrong, "early": early, "late": late, "distinct": distinct}))
