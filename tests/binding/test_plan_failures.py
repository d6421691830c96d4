"""Failures of a plan, and interrupts: what is raised, and that nothing is lost."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import Plan
from reference.cases import Case
from reference.operands import Array, Operands

Live = Callable[[], dict[str, int]]
SimulatorOf = Callable[[Operands], aclnn_bindings.Library]
AssertRight = Callable[[Array, Operands], None]


def test_a_fault_of_the_device_comes_up_and_the_next_call_works(
    small_mx: Operands, simulator_of: SimulatorOf, live: Live, assert_right: AssertRight
) -> None:
    library = simulator_of(small_mx)
    before = live()
    wrong = {**small_mx.arrays, "row_index": np.full(8, 4)}
    with (
        pytest.raises(aclnn_bindings.DeviceFaultError) as caught,
        Plan(small_mx.problem, wrong, library=library, validate="off") as plan,
    ):
        plan.execute()
    assert caught.value.code == 507035
    assert live() == before
    with Plan(small_mx.problem, small_mx.arrays, library=library) as plan:
        plan.execute()
        assert_right(plan.result(), small_mx)


def test_a_refused_phase_one_carries_the_code_and_leaves_nothing(
    small_w4a8: Operands, simulator_of: SimulatorOf, live: Live
) -> None:
    before = live()
    problem, arrays = small_w4a8.problem, {n: a for n, a in small_w4a8.arrays.items() if n != "bias"}
    without_bias = type(problem)(problem.platform, {**problem.arguments, "bias": None}, problem.attributes)
    with pytest.raises(aclnn_bindings.RejectedError) as caught:
        Plan(without_bias, arrays, library=simulator_of(small_w4a8), validate="off")
    assert caught.value.code == 161001
    assert "bias" in (caught.value.message or "")
    assert live() == before


def test_what_times_out_stays_reserved_until_the_device_is_done(
    simulator_of: SimulatorOf, live: Live
) -> None:
    operands = Case("slow", "mxfp8", 1024, 2048, 2048, 2, 256).make()
    library = simulator_of(operands)
    before = live()
    plan = Plan(operands.problem, operands.arrays, library=library, timeout=0.001)
    for _ in range(3):
        plan.launch()
    with pytest.raises(aclnn_bindings.SynchronizeTimeoutError):
        plan.synchronize()
    with pytest.raises(aclnn_bindings.SynchronizeTimeoutError):
        plan.close()
    assert plan.closed
    assert live()["liveTensors"] > before["liveTensors"]
    with library.runtime.bind():
        library.check(library.functions.aclrtSynchronizeDevice(), "aclrtSynchronizeDevice")
    assert live() == before


def test_an_interrupt_at_any_point_of_a_run_loses_nothing(simulator_of: SimulatorOf, live: Live) -> None:
    """An exception out of every step in turn: the tracer raises where the n-th function is entered."""
    operands = Case("interrupted", "mxfp8", 8, 64, 32, 2, 4).make()
    library = simulator_of(operands)

    def run() -> Any:
        with Plan(operands.problem, operands.arrays, library=library, repeatable=False) as plan:
            return plan.run()

    def interrupted(step: int) -> bool:
        left = step

        def trace(frame: Any, event: str, argument: Any) -> None:
            nonlocal left
            if event == "call" and "aclnn_bindings" in frame.f_code.co_filename:
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt

        sys.settrace(trace)
        try:
            run()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    first = run()
    gc.collect()
    before, step = live(), 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        while interrupted(step):
            gc.collect()
            assert live() == before, f"function {step}"
            assert library.memory_stats().in_use == 0, f"function {step}"
            step += 1
    assert step > 50
    np.testing.assert_array_equal(run(), first)
