"""The simulator beside plain torch and the machine's limits, and how its time grows with m, k, n and e.

Run from the repository, torch installed: ``python benchmarks/simulator.py [--json] [--small]``.  The floor of
a call is what reading the weights once at the machine's read rate takes, or its products at the machine's
float32 rate, whichever is longer; the share is how much of the measured time that floor is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from machine import main, matmul_rate, read_rate, seconds
from plain_torch import mxfp4_golden, mxfp8_golden, torch_operands, w4a8_golden

from aclnn_bindings import Plan, simulator
from reference import Operands, compare, golden, make_case
from reference.cases import Case

SMALL = "--small" in sys.argv
CASES = ("case3",) if SMALL else ("case1", "case2", "case3", "case4", "registered2")
MXFP4 = Case("mxfp4", "mxfp4", 256, 4096, 4096, 8, 64)
BASE = Case("growth", "mxfp8", 128, 2048, 2048, 8, 64)


def execute_seconds(operands: Operands) -> float:
    """One run with the operands on the simulated device: phase 2 and the wait for it."""
    library = simulator(operands.problem.platform_row.default_soc)
    with Plan(operands.problem, operands.arrays, library=library, consume_x1=True, repeatable=False) as plan:
        if operands.problem.platform_row.family == "950":
            return seconds(plan.execute)
    return min(_fresh_run(operands, library) for _ in range(5))


def _fresh_run(operands: Operands, library: Any) -> float:
    """One run whose x1 the kernel may destroy."""
    with Plan(operands.problem, operands.arrays, library=library, consume_x1=True, repeatable=False) as plan:
        plan.execute()
        return plan.execute_seconds


def measure_call(
    name: str, operands: Operands, plain: Callable[[Operands, Any], Any], limits: tuple[float, float]
) -> dict[str, float]:
    """One call: plain torch, the simulator, and the share of the floor."""
    tensors = torch_operands(operands)
    if operands.problem.k * operands.problem.n < 1 << 26:
        exact = golden(operands, magnitudes=True)
        assert compare(plain(operands, tensors).numpy(), exact.out, exact).verdict == "PASS"
    slow, fast = seconds(lambda: plain(operands, tensors), 3), execute_seconds(operands)
    rows = int(operands.arrays["group_list"].sum())
    flops = 2e-9 * rows * operands.problem.k * operands.problem.n
    floor = max(1e-9 * operands.arrays["x2"].nbytes / limits[1], flops / limits[0])
    return {
        f"{name}: plain torch, s": slow,
        f"{name}: simulator, s": fast,
        f"{name}: simulator, times faster than plain torch": slow / fast,
        f"{name}: simulator, GFLOP/s": flops / fast,
        f"{name}: simulator, share of the floor": floor / fast,
    }


def measure_growth() -> dict[str, float]:
    """Milliseconds of one run while one extent doubles."""
    figures = {}
    for extent in ("m", "k", "n", "e"):
        for factor in (1, 2) if SMALL else (1, 2, 4):
            changed = {extent: getattr(BASE, extent) * factor}
            if extent == "m":
                changed["batch"] = BASE.batch * factor
            case = Case(
                "growth",
                "mxfp8",
                **{k: changed.get(k, getattr(BASE, k)) for k in ("m", "k", "n", "e", "batch")},
            )
            figures[f"{extent} = {changed[extent]}: simulator, ms"] = 1e3 * execute_seconds(case.make())
    return figures


def measure() -> dict[str, float]:
    """All figures by name."""
    limits = matmul_rate(2048, 2048, 2048), read_rate()
    figures = {"machine: float32 matmul, GFLOP/s": limits[0], "machine: memory read, GB/s": limits[1]}
    for name in CASES:
        figures |= measure_call(name, make_case(name), mxfp8_golden, limits)
    figures |= measure_call("MXFP4 256 x 4096 x 4096, e 8", MXFP4.make(), mxfp4_golden, limits)
    figures |= measure_call("w4a8_doc", _without_shared(make_case("w4a8_doc")), w4a8_golden, limits)
    return figures | measure_growth()


def _without_shared(operands: Operands) -> Operands:
    """The call without its shared input, which the plain golden leaves out."""
    arrays = {name: array for name, array in operands.arrays.items() if name != "shared_input"}
    return Operands.from_arrays(platform=operands.problem.platform, batch=operands.batch, **arrays)


if __name__ == "__main__":
    sys.argv = [argument for argument in sys.argv if argument != "--small"]
    main(measure, __doc__)
