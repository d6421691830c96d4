"""Plans: repeated runs, what they leave alone, what they give back, and what they refuse."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import DeviceAddress, Plan
from aclnn_bindings.memory import DeviceMemory, memory_of
from reference import InvalidProblemError, golden
from reference.cases import Case
from reference.operands import Array, Operands

Live = Callable[[], dict[str, int]]
SimulatorOf = Callable[[Operands], aclnn_bindings.Library]

MX = Case("mx", "mxfp8", 8, 64, 32, 2, 4, options={"bias": True, "transpose_x2": True})
FP4 = Case("fp4", "mxfp4", 8, 64, 32, 2, 4)
W4A8 = Case("w4a8", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2")
A3 = Case("a3", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a3", options={"offset": True})
TUNED = Case("tuned", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2", options={"tuning_config": (4,)})
ALL = pytest.mark.parametrize("case", [MX, FP4, W4A8, A3, TUNED], ids=lambda case: case.name)


def assert_right(result: Array, operands: Operands) -> None:
    """``result`` is the golden's: rounding of float32 sums aside, and for W4A8 of half-precision partials."""
    stage = golden(operands, magnitudes=True)
    assert stage.magnitude is not None
    slack = 1e-5 * stage.magnitude + (0 if stage.rounding is None else stage.rounding)
    assert (np.abs(result - stage.out) <= slack).all()


@ALL
@pytest.mark.parametrize("repeatable", [True, False])
def test_every_run_gives_the_same_right_result(
    case: Case, repeatable: bool, simulator_of: SimulatorOf
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


@ALL
def test_the_callers_arrays_never_change(case: Case, simulator_of: SimulatorOf) -> None:
    operands = case.make()
    before = {name: array.tobytes() for name, array in operands.arrays.items()}
    with Plan(operands.problem, operands.arrays, library=simulator_of(operands)) as plan:
        for _ in range(3):
            plan.execute()
    assert {name: array.tobytes() for name, array in operands.arrays.items()} == before


@ALL
def test_everything_is_given_back(case: Case, simulator_of: SimulatorOf, live: Live) -> None:
    operands = case.make()
    before = live()
    plan = Plan(operands.problem, operands.arrays, library=simulator_of(operands))
    plan.execute()
    assert live()["liveTensors"] > before["liveTensors"]
    plan.close()
    plan.close()
    assert live() == before


@ALL
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


def test_launch_queues_and_result_waits(small_mx: Operands, simulator_of: SimulatorOf) -> None:
    with Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx)) as plan:
        plan.launch()
        plan.launch()
        assert_right(plan.result(), small_mx)
        plan.launch()
        plan.synchronize()


@pytest.mark.parametrize("repeatable", [True, False])
def test_update_gives_inputs_new_data(repeatable: bool, simulator_of: SimulatorOf) -> None:
    operands, other = MX.make(), MX.make(seed=1)
    changed = {name: other.arrays[name] for name in ("x1", "logit", "pertoken_scale", "x2", "scale")}
    mixed = Operands(operands.problem, {**operands.arrays, **changed})
    library = simulator_of(operands)
    with Plan(operands.problem, operands.arrays, library=library, repeatable=repeatable) as plan:
        plan.execute()
        plan.update(**changed)
        plan.execute()
        assert_right(plan.result(), mixed)


def test_update_checks_new_values(small_mx: Operands, simulator_of: SimulatorOf) -> None:
    with Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx)) as plan:
        with pytest.raises(InvalidProblemError, match="row_index"):
            plan.update(row_index=np.full(8, 99))
        with pytest.raises(ValueError, match="bias: the call has no such argument"):
            plan.update(bias=np.zeros(1))


# ------------------------------------------------------------------------------------------------ x1 on A2/A3


def test_x1_is_restored_before_each_run(simulator_of: SimulatorOf) -> None:
    operands = W4A8.make()
    with Plan(operands.problem, operands.arrays, library=simulator_of(operands)) as plan:
        plan.execute()
        first = plan.result()
        plan.execute()
        np.testing.assert_array_equal(plan.result(), first)


def test_a_consumed_x1_needs_new_data_before_the_next_run(simulator_of: SimulatorOf) -> None:
    operands = W4A8.make()
    with Plan(operands.problem, operands.arrays, library=simulator_of(operands), consume_x1=True) as plan:
        plan.execute()
        first = plan.result()
        with pytest.raises(aclnn_bindings.BindingError, match=r"x1: the last run overwrote it.*update\(x1="):
            plan.execute()
        plan.update(x1=operands.arrays["x1"])
        plan.execute()
        np.testing.assert_array_equal(plan.result(), first)


def test_consume_x1_means_nothing_on_ascend_950(simulator_of: SimulatorOf) -> None:
    operands = MX.make()
    with Plan(operands.problem, operands.arrays, library=simulator_of(operands), consume_x1=True) as plan:
        plan.execute()
        plan.execute()


@pytest.fixture
def on_device() -> Any:
    """Copies of arrays in device memory that belongs to the test."""
    held: list[DeviceMemory] = []

    def put(library: aclnn_bindings.Library, array: Array, ahead: int = 0) -> DeviceMemory:
        with library.runtime.bind() as context:
            memory = DeviceMemory(context, array.nbytes + ahead)
            held.append(memory)
            image = np.concatenate([np.full(ahead, 0x5A, np.uint8), np.frombuffer(array.tobytes(), np.uint8)])
            memory.context.memory.upload([memory.address], [image.nbytes], [memory_of(image)])
            return memory

    yield put
    for memory in held:
        memory.close()


def read(memory: DeviceMemory) -> bytes:
    image = np.empty(memory.nbytes, np.uint8)
    with memory.context.current():
        memory.context.memory.download(memory.address, image)
    return image.tobytes()


@pytest.mark.parametrize("consume", [False, True])
def test_x1_in_the_callers_device_memory_is_protected_unless_given_away(
    consume: bool, simulator_of: SimulatorOf, on_device: Any
) -> None:
    operands = W4A8.make()
    library = simulator_of(operands)
    memory = on_device(library, operands.arrays["x1"])
    sources = {**operands.arrays, "x1": DeviceAddress(memory.address, memory)}
    with Plan(operands.problem, sources, library=library, consume_x1=consume) as plan:
        plan.execute()
        assert_right(plan.result(), operands)
    assert (read(memory) == operands.arrays["x1"].tobytes()) is not consume


@ALL
@pytest.mark.parametrize("repeatable", [True, False])
def test_bound_addresses_are_used_by_the_runs_that_follow(
    case: Case, repeatable: bool, simulator_of: SimulatorOf, on_device: Any
) -> None:
    operands, other = case.make(), case.make(seed=1)
    names = ["x1", "logit"] if case.path == "w4a8" else ["x1", "x2", "scale", "pertoken_scale", "logit"]
    mixed = Operands(operands.problem, {**operands.arrays, **{name: other.arrays[name] for name in names}})
    library = simulator_of(operands)
    with library.runtime.bind() as context:
        out = on_device(library, np.zeros((case.batch, case.n), np.float32))
        first = {n: on_device(library, physical(operands.arrays[n])) for n in names}
        second = {n: on_device(library, physical(other.arrays[n])) for n in names}
        sources = {**operands.arrays, **{n: DeviceAddress(m.address) for n, m in first.items()}}
        stream = context.streams.acquire()
        with Plan(
            operands.problem,
            sources,
            library=library,
            out=DeviceAddress(out.address),
            repeatable=repeatable,
            stream=int(library_address(stream)),
        ) as plan:
            plan.execute()
            assert_right(np.frombuffer(read(out), np.float32).reshape(case.batch, case.n), operands)
            plan.bind(**{n: DeviceAddress(m.address) for n, m in second.items()})
            plan.execute()
            assert_right(np.frombuffer(read(out), np.float32).reshape(case.batch, case.n), mixed)
            with pytest.raises(ValueError, match="the result is in the caller's device memory"):
                plan.result()
            with pytest.raises(ValueError, match="logit: its memory belongs to the caller"):
                plan.update(logit=operands.arrays["logit"])
        context.streams.release(stream)


def library_address(stream: Any) -> int:
    from aclnn_bindings._acl import ffi

    return int(ffi.cast("uintptr_t", stream.pointer))


def physical(array: Array) -> Array:
    """The array's memory in its own order."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return array.transpose(order)


# ------------------------------------------------------------------------------------------------ out


def test_a_strided_out_gets_the_result_and_keeps_its_gaps(
    small_mx: Operands, simulator_of: SimulatorOf
) -> None:
    wide = np.full((4, 64), -7.0, np.float32)
    operands = Operands.from_arrays(
        platform="ascend950",
        out=wide[:, ::2],
        shared_input_weight=0.5,
        shared_input_offset=1,
        **small_mx.arrays,
    )
    assert operands.problem.spec("out").strides == (64, 2)
    with Plan(operands.problem, operands.arrays, library=simulator_of(operands), out=wide[:, ::2]) as plan:
        plan.execute()
        plan.result()
    assert_right(wide[:, ::2], small_mx)
    assert (wide[:, 1::2] == -7.0).all()


@pytest.mark.parametrize(
    ("out", "got"),
    [
        (np.zeros((4, 31), np.float32), r"got float32 \[4, 31\]"),
        (np.zeros((4, 32)), r"got float64 \[4, 32\]"),
        (np.broadcast_to(np.float32(0), (4, 32)), r"got read-only float32 \[4, 32\]"),
    ],
)
def test_a_wrong_out_is_refused(small_mx: Operands, simulator_of: SimulatorOf, out: Array, got: str) -> None:
    with pytest.raises(ValueError, match=rf"out: expected a writable array float32 \[4, 32\], {got}"):
        Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx), out=out)


def test_missing_and_surplus_data_are_named(small_mx: Operands, simulator_of: SimulatorOf) -> None:
    arrays = dict(small_mx.arrays)
    logit = arrays.pop("logit")
    with pytest.raises(ValueError, match="logit: the call needs data for it"):
        Plan(small_mx.problem, arrays, library=simulator_of(small_mx))
    with pytest.raises(ValueError, match="bias: the call has no such argument"):
        Plan(small_mx.problem, {**arrays, "logit": logit, "bias": logit}, library=simulator_of(small_mx))


def test_with_no_rows_the_plan_leaves_out_untouched(simulator_of: SimulatorOf) -> None:
    operands = Case("empty", "mxfp8", 0, 64, 32, 2, 4, options={"counts": [0, 0]}).make()
    out = np.full((4, 32), 3.5, np.float32)
    with Plan(operands.problem, operands.arrays, library=simulator_of(operands), out=out) as plan:
        assert plan.writes_nothing
        assert plan.workspace_size == 0
        plan.execute()
        assert plan.result() is out
    assert (out == 3.5).all()


# ------------------------------------------------------------------------------------------------ options


@pytest.mark.parametrize(("deterministic", "extra"), [(None, 0), (False, 0), (True, 96 << 20)])
def test_the_determinism_switch_reaches_phase_one_and_is_restored(
    deterministic: bool | None, extra: int, simulator_of: SimulatorOf
) -> None:
    operands = W4A8.make()
    library = simulator_of(operands)
    with Plan(operands.problem, operands.arrays, library=library) as plan:
        plain = plan.workspace_size
    with Plan(operands.problem, operands.arrays, library=library, deterministic=deterministic) as plan:
        assert plan.workspace_size == plain + extra
        assert option(library, "aclrtGetSysParamOpt") == option(library, "aclrtCtxGetSysParamOpt") == 0
        plan.execute()
        assert_right(plan.result(), operands)


def option(library: aclnn_bindings.Library, reader: str) -> int:
    from aclnn_bindings._acl import ffi, lib

    cell = ffi.new("int64_t *")
    status = getattr(library.functions, reader)(lib.ACL_OPT_DETERMINISTIC, cell)
    return 0 if status else int(cell[0])


def test_a_value_that_was_set_before_comes_back(simulator_of: SimulatorOf) -> None:
    from aclnn_bindings._acl import lib

    operands = W4A8.make()
    library = simulator_of(operands)
    with library.runtime.bind():
        functions = library.functions
        library.check(functions.aclrtSetSysParamOpt(lib.ACL_OPT_DETERMINISTIC, 1), "aclrtSetSysParamOpt")
        library.check(
            functions.aclrtCtxSetSysParamOpt(lib.ACL_OPT_DETERMINISTIC, 1), "aclrtCtxSetSysParamOpt"
        )
        try:
            with Plan(operands.problem, operands.arrays, library=library, deterministic=False):
                assert (
                    option(library, "aclrtGetSysParamOpt") == option(library, "aclrtCtxGetSysParamOpt") == 1
                )
        finally:
            functions.aclrtSetSysParamOpt(lib.ACL_OPT_DETERMINISTIC, 0)
            functions.aclrtCtxSetSysParamOpt(lib.ACL_OPT_DETERMINISTIC, 0)


def test_validation_levels(simulator_of: SimulatorOf) -> None:
    operands = W4A8.make()  # k 256 and n 128 are outside the documented 2048 and 7168
    library = simulator_of(operands)
    with pytest.raises(InvalidProblemError, match="phase 1 accepts this call"):
        Plan(operands.problem, operands.arrays, library=library, validate="strict")
    wrong = {**operands.arrays, "row_index": np.full(8, 4)}
    with pytest.raises(InvalidProblemError, match="row_index"):
        Plan(operands.problem, wrong, library=library)
    with pytest.raises(ValueError, match='validate: expected "errors", "strict" or "off"'):
        Plan(operands.problem, operands.arrays, library=library, validate="all")  # type: ignore[arg-type]


def test_a_fault_of_the_device_comes_up_and_the_next_call_works(
    simulator_of: SimulatorOf, live: Live
) -> None:
    operands = MX.make()
    library = simulator_of(operands)
    before = live()
    wrong = {**operands.arrays, "row_index": np.full(8, 4)}
    with (
        pytest.raises(aclnn_bindings.DeviceFaultError) as caught,
        Plan(operands.problem, wrong, library=library, validate="off") as plan,
    ):
        plan.execute()
    assert caught.value.code == 507035
    assert live() == before
    with Plan(operands.problem, operands.arrays, library=library) as plan:
        plan.execute()
        assert_right(plan.result(), operands)


def test_a_refused_phase_one_carries_the_code_and_leaves_nothing(
    simulator_of: SimulatorOf, live: Live
) -> None:
    operands = W4A8.make()
    before = live()
    problem, arrays = operands.problem, {n: a for n, a in operands.arrays.items() if n != "bias"}
    without_bias = type(problem)(problem.platform, {**problem.arguments, "bias": None}, problem.attributes)
    with pytest.raises(aclnn_bindings.RejectedError) as caught:
        Plan(without_bias, arrays, library=simulator_of(operands), validate="off")
    assert caught.value.code == 161001
    assert "bias" in (caught.value.message or "")
    assert live() == before


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), 1e9])
def test_a_timeout_is_a_number_of_seconds(
    small_mx: Operands, simulator_of: SimulatorOf, timeout: float
) -> None:
    with pytest.raises(ValueError, match="timeout: expected seconds above 0"):
        Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx), timeout=timeout)


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


def test_run_and_close_gives_the_result_and_everything_back(simulator_of: SimulatorOf, live: Live) -> None:
    operands = W4A8.make()
    before = live()
    plan = Plan(operands.problem, operands.arrays, library=simulator_of(operands), repeatable=False)
    assert_right(plan.run_and_close(), operands)
    assert plan.closed
    assert live() == before
    with pytest.raises(aclnn_bindings.ClosedHandleError, match="the plan is closed"):
        plan.run_and_close()


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
