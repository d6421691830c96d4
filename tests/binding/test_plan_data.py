"""What a plan reads and writes: new data, x1 on Atlas A2/A3, the caller's device memory, and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import DeviceAddress, Plan
from aclnn_bindings.memory import DeviceMemory, memory_of
from reference import InvalidProblemError
from reference.cases import Case
from reference.operands import Array, Operands

SimulatorOf = Callable[[Operands], aclnn_bindings.Library]
AssertRight = Callable[[Array, Operands], None]

MX = Case("mx", "mxfp8", 8, 64, 32, 2, 4, options={"bias": True, "transpose_x2": True})


@pytest.mark.parametrize("repeatable", [True, False])
def test_update_gives_inputs_new_data(
    repeatable: bool, simulator_of: SimulatorOf, assert_right: AssertRight
) -> None:
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


def test_x1_is_restored_before_each_run(small_w4a8: Operands, simulator_of: SimulatorOf) -> None:
    with Plan(small_w4a8.problem, small_w4a8.arrays, library=simulator_of(small_w4a8)) as plan:
        plan.execute()
        first = plan.result()
        plan.execute()
        np.testing.assert_array_equal(plan.result(), first)


def test_a_consumed_x1_needs_new_data_before_the_next_run(
    small_w4a8: Operands, simulator_of: SimulatorOf
) -> None:
    with Plan(
        small_w4a8.problem, small_w4a8.arrays, library=simulator_of(small_w4a8), consume_x1=True
    ) as plan:
        plan.execute()
        first = plan.result()
        with pytest.raises(aclnn_bindings.BindingError, match=r"x1: the last run overwrote it.*update\(x1="):
            plan.execute()
        plan.update(x1=small_w4a8.arrays["x1"])
        plan.execute()
        np.testing.assert_array_equal(plan.result(), first)


def test_consume_x1_means_nothing_on_ascend_950(small_mx: Operands, simulator_of: SimulatorOf) -> None:
    with Plan(small_mx.problem, small_mx.arrays, library=simulator_of(small_mx), consume_x1=True) as plan:
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
    small_w4a8: Operands, consume: bool, simulator_of: SimulatorOf, on_device: Any, assert_right: AssertRight
) -> None:
    library = simulator_of(small_w4a8)
    memory = on_device(library, small_w4a8.arrays["x1"])
    sources = {**small_w4a8.arrays, "x1": DeviceAddress(memory.address, memory)}
    with Plan(small_w4a8.problem, sources, library=library, consume_x1=consume) as plan:
        plan.execute()
        assert_right(plan.result(), small_w4a8)
    assert (read(memory) == small_w4a8.arrays["x1"].tobytes()) is not consume


@pytest.mark.parametrize("repeatable", [True, False])
def test_bound_addresses_are_used_by_the_runs_that_follow(
    case: Case, repeatable: bool, simulator_of: SimulatorOf, on_device: Any, assert_right: AssertRight
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


def test_a_strided_out_gets_the_result_and_keeps_its_gaps(
    small_mx: Operands, simulator_of: SimulatorOf, assert_right: AssertRight
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
