"""NPU tensors as arguments of the binding: what is refused, what a plan can change; prints what it saw."""

import json
from concurrent.futures import ThreadPoolExecutor

import torch
import torch_npu  # noqa: F401

import gmmfr
from aclnn_bindings import Plan, find_library, grouped_matmul_finalize_routing_v3
from gmmfr.backends import run_library
from gmmfr.torch_call import torch_arguments
from reference import Operands, Problem, golden, make_case

INPUTS = ("scale", "bias", "pertoken_scale", "shared_input", "logit", "row_index")
operands = make_case("c18_w4a8" if "910" in torch.npu.get_device_name(0) else "c18_mxfp8")
positional, named = torch_arguments(operands, "npu")
call = dict(zip(("x1", "x2", "group_list"), positional, strict=True))
call.update({name: named[name] for name in INPUTS if named[name] is not None})
scalars = {name: named[name] for name in ("shared_input_weight", "shared_input_offset", "group_list_type")}
platform, batch = operands.problem.platform, operands.batch
expected = torch.from_numpy(golden(operands).out).float()


def close(out):
    return torch.allclose(out.cpu(), expected, rtol=1e-3, atol=1e-2)


def message(work):
    try:
        work()
    except ValueError as error:
        return str(error)
    return None


seen = {"soc": torch.npu.get_device_name(0)}
problem = Problem.from_arrays(platform=platform, batch=batch, **call, **scalars)
with Plan(problem, call, library=find_library()) as plan:
    plan.execute()
    first, again = plan.result(), plan.result()
    seen["results of their own"] = first.data_ptr() != again.data_ptr() and torch.equal(
        first.cpu(), again.cpu()
    )
    seen["plan"] = close(first)
    seen["update"] = message(lambda: plan.update(logit=call["logit"]))
    seen["bind host"] = message(lambda: plan.bind(logit=torch.zeros(8)))
    seen["bind other shape"] = message(lambda: plan.bind(logit=call["logit"][:4]))
    plan.bind(logit=torch.zeros(8).npu())
    plan.execute()
    seen["bound zeros"] = bool((plan.result().cpu()[0] == 0).all())
    out = torch.full((batch, operands.problem.n), float("nan"), device="cpu").npu()
    plan.bind(logit=call["logit"], out=out)
    plan.execute()
    seen["bound out"] = plan.result() is out and close(out)

out = torch.empty(batch, operands.problem.n, device="npu")
seen["out given"] = grouped_matmul_finalize_routing_v3(**call, **scalars, out=out) is out and close(out)
side = torch.npu.Stream()
with torch.npu.stream(side):
    on_side = grouped_matmul_finalize_routing_v3(**call, **scalars, batch=batch)
seen["side stream"] = close(on_side)


def again(change=None, **named):
    """Three calls of one kind, of which the last two take the quick way; each with x1 of its own."""
    results, kept = [], []
    for _ in range(3):
        x1 = call["x1"].clone()
        results.append(
            grouped_matmul_finalize_routing_v3(**{**call, "x1": x1, **(change or {})}, **scalars, **named)
        )
        kept.append(torch.equal(x1.cpu().view(torch.uint8), call["x1"].cpu().view(torch.uint8)))
    return all(map(close, results)), kept


seen["again"] = again(batch=batch)
seen["again, x1 consumed"] = again(batch=batch, consume_x1=True)
seen["again, out given"] = again(out=out)
room = torch.cat([torch.zeros(8), call["logit"].cpu()]).npu()
seen["again, with an offset"] = again({"logit": room[8:]}, batch=batch)
with torch.npu.stream(side):
    seen["again, on a side stream"] = again(batch=batch)
with torch.npu.device(1):
    found = [again(batch=batch, timeout=timeout) for timeout in (None, 60) for _ in range(10)]
    seen["again, from another device"] = [
        all(right and all(kept) for right, kept in found),
        torch.npu.current_device(),
    ]
with ThreadPoolExecutor(4) as pool:
    seen["again, in threads"] = [found[0] for found in pool.map(lambda _: again(batch=batch), range(8))]
mixed = {**call, "logit": call["logit"].cpu(), "group_list": call["group_list"].cpu().numpy()}
result = grouped_matmul_finalize_routing_v3(**mixed, **scalars, batch=batch)
seen["mixed"] = [str(result.device), close(result)]
negated = {**call, "logit": torch._neg_view(call["logit"])}
seen["negated"] = message(lambda: grouped_matmul_finalize_routing_v3(**negated, **scalars, batch=batch))
moved = {**call, "logit": call["logit"].to("npu:1")}
seen["two devices"] = message(lambda: grouped_matmul_finalize_routing_v3(**moved, **scalars, batch=batch))
elsewhere = {name: tensor.to("npu:1") for name, tensor in call.items()}
result = grouped_matmul_finalize_routing_v3(**elsewhere, **scalars, batch=batch)
seen["other device"] = [str(result.device), close(result), torch.npu.current_device()]
seen["described otherwise"] = message(
    lambda: Plan(problem, {**call, "x1": call["x1"].t().contiguous().t()}, library=find_library())
)
loaded = Operands.from_arrays(platform=platform, batch=batch, **call, **scalars)
seen["run"] = bool(close(torch.from_numpy(gmmfr.run(loaded, backend="simulator").out)))
seen["kept"] = sorted(loaded.devices) == sorted(call)
where, sources = loaded.on_device()
seen["on device"] = where == problem and all(sources[name] is call[name] for name in call)
library = find_library()
library.provider = "vendor"  # so that the backend reads the tensors, as it does beside an NPU
before = call["x1"].cpu().view(torch.uint8)
seen["backend"] = close(torch.from_numpy(run_library("aclnn", library, "this device", loaded).out))
seen["backend keeps x1"] = torch.equal(call["x1"].cpu().view(torch.uint8), before)
print(json.dumps(seen))
