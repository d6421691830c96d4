"""Plans: repeated runs, what they leave alone, what they give back, and their end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import Plan
from reference.cases import Case
from reference.operands import Array, Operands

Live = Callable[[], dict[str, int]]
SimulatorOf = Callable[[Operands], aclnn_bindings.Library]
AssertRight = Callable[[Array, Operands], None]

MX = Case("mx", "mxfp8", 8, 64, 32, 2, 4, options={"bias": True, "transpose_x2": True})


@pytest.mark.parametrize("repeatable", [True, False])
def test_every_run_gives_the_same_right_result(
    case: Case, repeatable: bool, simulator_of: SimulatorOf, assert_right: AssertRight
) -> None:
    operands = case.make()
    out = np.full((case.batch, case.n), np.nan, np.float32)
    library = simulator_of(operands)
    library.functions.gmmfrSimClearCache()
    with Plan(operands.problem, operands.arrays, library=library, out=out, repeatable=repeatable) as plan:
        assert plan.repeatable is repeatable
        plan.execute()
        assert plan.result() is out
        first = out.copy()
        for _ in range(3):
            plan.execute()
            np.testing.assert_array_equal(plan.result(), first)
    assert_right(first, operands)


def test_the_callers_arrays_never_change(case: Case, simulator_of: SimulatorOf) -> None:
    operands = case.make()
    before = {name: array.tobytes() for name, array in operands.arrays.items()}
    with Plan(operands.problem, operands.arrays, library=simulator_of(operands)) as plan:
        for _ in range(3):
            plan.execute()
    assert {name: array.tobytes() for name, array in operands.arrays.items()} == before


def test_everything_is_given_back(case: Case, simulator_of: SimulatorOf, live: Live) -> None:
    operands = case.make()
    before = live()
    plan = Plan(operands.problem, operands.arrays, library=simulator_of(operands))
    plan.execute()
    assert live()["liveTensors"] > before["liveTensors"]
    plan.close()
    plan.close()
    assert live() == before


@pytest.mark.parametrize("runs", [0, 1])
def test_a_plan_without_repeatable_executor_gives_everything_back(
    case: Case, runs: int, simulator_of: SimulatorOf, live: Live
) -> None:
    operands = case.make()
    before = live()
    with Plan(operands.problem, operands.arrays, library=simulator_of(operands), repeatable=False) as plan:
        for _ in range(runs):
            plan.execute()
    assert live() == before


def test_a_thousand_runs_and_a_thousand_plans_do_not_grow(simulator_of: SimulatorOf, live: Live) -> None:
    operands = MX.make()
    library = simulator_of(operands)
    before = live()
    with Plan(operands.problem, operands.arrays, library=library, repeatable=False) as plan:
        plan.execute()
        during = live()
        for _ in range(1000):
            plan.execute()
        assert live() == during
    peak = library.memory_stats().peak
    for _ in range(1000):
        with Plan(operands.problem, operands.arrays, library=library) as plan:
            plan.execute()
    assert library.memory_stats().peak == peak
    assert library.memory_stats().in_use == 0
    assert live() == before


def test_use_after_close_raises(small_mx: Operands, simulator_of: SimulatorOf) -> None:
    plan = Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx))
    plan.close()
    assert plan.closed
    for use in (plan.execute, plan.launch, plan.synchronize, plan.result, plan.update, plan.bind):
        with pytest.raises(aclnn_bindings.ClosedHandleError, match="the plan is closed"):
            use()


def test_a_forgotten_plan_is_closed_with_a_warning(
    small_mx: Operands, simulator_of: SimulatorOf, live: Live
) -> None:
    before = live()
    with pytest.warns(ResourceWarning, match="a Plan was never closed"):
        Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx)).execute()
    assert live() == before


def test_launch_queues_and_result_waits(
    small_mx: Operands, simulator_of: SimulatorOf, assert_right: AssertRight
) -> None:
    with Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx)) as plan:
        plan.launch()
        plan.launch()
        assert_right(plan.result(), small_mx)
        plan.launch()
        plan.synchronize()


def test_run_and_close_gives_the_result_and_everything_back(
    small_w4a8: Operands, simulator_of: SimulatorOf, live: Live, assert_right: AssertRight
) -> None:
    before = live()
    plan = Plan(small_w4a8.problem, small_w4a8.arrays, library=simulator_of(small_w4a8), repeatable=False)
    assert_right(plan.run_and_close(), small_w4a8)
    assert plan.closed
    assert live() == before
    with pytest.raises(aclnn_bindings.ClosedHandleError, match="the plan is closed"):
        plan.run_and_close()
