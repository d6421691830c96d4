"""One warm call of a tiny problem on NPU tensors: torch_npu, our plan, our function, the custom operator.

Run from the repository: ``python benchmarks/torch_npu_calls.py [--json]``; it starts itself on the simulator.
All ways drive the same simulator with the same tensors and take turns in rounds, so that they see the same
machine.  A figure is the median, in microseconds, of a call and the wait for its stream.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from gmmfr.simulated_device import simulated_environment
from reference.cases import Case

CASE = Case("tiny", "mxfp8", 2, 64, 32, 2, 2, options={"counts": [1, 1]})
SOC = "Ascend950PR_9579"
ROUNDS, CALLS = 25, 100
INPUTS = ("scale", "pertoken_scale", "logit", "row_index")


def ways() -> dict[str, Callable[[], Any]]:
    """The four ways to make the call, each waiting for its stream."""
    import torch
    import torch_npu

    import gmmfr.torch_op
    from aclnn_bindings import Plan, find_library, grouped_matmul_finalize_routing_v3
    from gmmfr.torch_call import torch_arguments
    from reference import Problem

    operands = CASE.make()
    positional, named = torch_arguments(operands, "npu")
    call = {"x1": positional[0], "x2": positional[1], "group_list": positional[2]}
    call.update({name: named[name] for name in INPUTS})
    problem = Problem.from_arrays(platform="ascend950", batch=CASE.batch, **call)
    plan = Plan(problem, call, library=find_library())
    operator = gmmfr.torch_op.grouped_matmul_finalize_routing
    waits = torch.npu.current_stream().synchronize

    def vendor() -> None:
        torch_npu.npu_grouped_matmul_finalize_routing(*positional, **named)
        waits()

    return {
        "torch_npu": vendor,
        "Plan.execute": plan.execute,
        "one-shot function": lambda: grouped_matmul_finalize_routing_v3(**call, batch=CASE.batch),
        "custom operator": lambda: operator(*positional, **named),
    }


def measure() -> dict[str, float]:
    """Median microseconds of each way."""
    runs = ways()
    times: dict[str, list[int]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(CALLS):
            run()
    for _ in range(ROUNDS):
        for name, run in runs.items():
            for _ in range(CALLS):
                begin = perf_counter_ns()
                run()
                times[name].append(perf_counter_ns() - begin)
    return {name: round(statistics.median(found) / 1e3, 1) for name, found in times.items()}


def start(task_queue: int) -> Any:
    """Measure in a process on the simulated device; OpenBLAS's machine-wide settings stay out of it."""
    environment = {**simulated_environment(SOC), "TASK_QUEUE_ENABLE": str(task_queue)}
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        environment.pop(name, None)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    command = [sys.executable, __file__, "--measure"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print microseconds of every way in all three modes of torch_npu's task queue."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure()))
        return
    found = {f"TASK_QUEUE_ENABLE={mode}": start(mode) for mode in (0, 1, 2)}
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'µs a call':20}", *(f"{mode:>20}" for mode in found))
    for name in next(iter(found.values())):
        print(f"{name:20}", *(f"{figures[name]:20.1f}" for figures in found.values()))


if __name__ == "__main__":
    main()
