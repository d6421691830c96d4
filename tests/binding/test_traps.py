"""Traps of the library that a careful caller avoids: each shown to be real on the simulator, and avoided by
a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import DeviceAddress, Plan
from aclnn_bindings._acl import ffi
from aclnn_bindings.handles import Executor
from aclnn_bindings.memory import DeviceMemory, memory_of
from aclnn_bindings.phase_one import call_phase_one, scalars_of
from aclnn_bindings.tensors import DescriptorTable, Tensors, device_specs
from reference import golden
from reference.cases import Case
from reference.operands import Operands
from reference.problem import ARGUMENTS, Problem, TensorSpec

W4A8 = Case("trap", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2")


@pytest.fixture
def library() -> Iterator[aclnn_bindings.Library]:
    library = aclnn_bindings.simulator("Ascend910B2")
    library.functions.gmmfrSimClearCache()
    yield library
    library.functions.gmmfrSimSetOldCacheKey(False)
    library.functions.gmmfrSimClearCache()


def make_pair() -> tuple[Operands, Operands]:
    """A call without offset, and the same call with one."""
    plain = W4A8.make()
    offset = np.random.default_rng(0).normal(0, 0.02, (2, 1, 128)).astype(np.float32)
    attributes = {"platform": "atlas_a2", "batch": 4}
    return plain, Operands.from_arrays(**attributes, **plain.arrays, offset=offset)


def run(operands: Operands, library: aclnn_bindings.Library, **options: Any) -> Any:
    with Plan(operands.problem, operands.arrays, library=library, **options) as plan:
        plan.execute()
        return plan.result()


def close(result: Any, operands: Operands) -> bool:
    stage = golden(operands, magnitudes=True)
    assert stage.magnitude is not None
    assert stage.rounding is not None
    return bool((np.abs(result - stage.out) <= 1e-5 * stage.magnitude + stage.rounding).all())


def run_raw(operands: Operands, library: aclnn_bindings.Library) -> Any:
    """Both phases as a plain C caller would write them: every storage shape as it is."""
    specs = device_specs(operands.problem)
    with library.runtime.bind() as context:
        blocks = {name: DeviceMemory(context, array.nbytes) for name, array in operands.arrays.items()}
        blocks["out"] = DeviceMemory(context, 4 * 128 * 4)
        for name, array in operands.arrays.items():
            context.memory.upload([blocks[name].address], [array.nbytes], [memory_of(array)])
        addresses = [blocks[name].address if name in blocks else 0 for name in ARGUMENTS]
        size, functions = ffi.new("uint64_t *"), library.functions
        stream = context.streams.acquire()
        with Tensors(context, DescriptorTable(specs), addresses) as tensors, Executor(context) as executor:
            scalars = scalars_of(operands.attributes)
            library.check(call_phase_one(library, tensors, scalars, ffi.NULL, size, executor.cell), "phase 1")
            with DeviceMemory(context, size[0]) as workspace:
                status = functions.aclnnGroupedMatmulFinalizeRoutingV3(
                    workspace.pointer, size[0], executor.take(), stream.pointer
                )
                library.check(status, "phase 2")
                library.check(functions.aclrtSynchronizeStream(stream.pointer), "synchronise")
        context.streams.release(stream)
        out = np.empty((4, 128), np.float32)
        context.memory.download(blocks["out"].address, out)
        for block in blocks.values():
            block.close()
        return out


def test_under_the_old_cache_key_a_plain_caller_loses_the_offset(library: aclnn_bindings.Library) -> None:
    plain, with_offset = make_pair()
    library.functions.gmmfrSimSetOldCacheKey(True)
    assert close(run_raw(plain, library), plain)
    assert not close(run_raw(with_offset, library), with_offset)
    library.functions.gmmfrSimSetOldCacheKey(False)
    library.functions.gmmfrSimClearCache()
    run_raw(plain, library)
    assert close(run_raw(with_offset, library), with_offset)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("repeatable", [False, True])
def test_a_plan_is_right_under_both_cache_keys(
    library: aclnn_bindings.Library, old: bool, repeatable: bool
) -> None:
    plain, with_offset = make_pair()
    library.functions.gmmfrSimSetOldCacheKey(old)
    for operands in (plain, with_offset, plain, with_offset):
        assert close(run(operands, library, repeatable=repeatable), operands)


def test_a_plan_after_ordinary_calls_is_repeatable(library: aclnn_bindings.Library) -> None:
    plain, _ = make_pair()
    for _ in range(3):
        run(plain, library, repeatable=False)
    with Plan(plain.problem, plain.arrays, library=library) as plan:
        assert plan.repeatable


def test_a_repeatable_executor_is_refused_on_a_cache_hit_and_the_plan_goes_on(
    library: aclnn_bindings.Library,
) -> None:
    plain, _ = make_pair()
    run(plain, library)  # fills the cache
    with Plan(plain.problem, plain.arrays, library=library) as plan:
        assert not plan.repeatable
        for _ in range(3):
            plan.execute()
            assert close(plan.result(), plain)


def test_phase_one_rewrites_x2_so_a_second_phase_one_needs_a_fresh_one(
    library: aclnn_bindings.Library,
) -> None:
    plain, _ = make_pair()
    specs = device_specs(plain.problem)
    size, scalars = ffi.new("uint64_t *"), scalars_of(plain.attributes)
    with library.runtime.bind() as context, DeviceMemory(context, 512) as memory:
        addresses = [memory.address if name in specs else 0 for name in ARGUMENTS]
        with (
            Tensors(context, DescriptorTable(specs), addresses) as tensors,
            Executor(context) as first,
            Executor(context) as second,
        ):
            assert call_phase_one(library, tensors, scalars, ffi.NULL, size, first.cell) == 0
            assert call_phase_one(library, tensors, scalars, ffi.NULL, size, second.cell) == 161002
    for _ in range(2):
        assert aclnn_bindings.phase_one_status(plain.problem, library) == 0


def test_x2_past_an_offset_is_passed_by_address(library: aclnn_bindings.Library) -> None:
    plain, _ = make_pair()
    weight = plain.arrays["x2"]
    spec = plain.problem.spec("x2")
    ahead = spec.size  # a whole other call's weights come first in memory
    problem = Problem(
        "atlas_a2", {**plain.problem.arguments, "x2": replace(spec, offset=ahead)}, plain.attributes
    )
    with library.runtime.bind() as context, DeviceMemory(context, 2 * weight.nbytes) as memory:
        image = np.concatenate([np.full(ahead, 0x11111111, np.int32), weight.ravel()])
        memory.context.memory.upload([memory.address], [image.nbytes], [memory_of(image)])
        sources = {**plain.arrays, "x2": DeviceAddress(memory.address)}
        with Plan(problem, sources, library=library, validate="off") as plan:
            plan.execute()
            assert close(plan.result(), plain)


def test_strided_int32_x2_in_device_memory_is_refused(library: aclnn_bindings.Library) -> None:
    plain, _ = make_pair()
    strided = TensorSpec((2, 256, 16), "int32", strides=(8192, 32, 1))
    problem = Problem("atlas_a2", {**plain.problem.arguments, "x2": strided}, plain.attributes)
    with pytest.raises(ValueError, match="x2: expected contiguous INT32 words"):
        Plan(problem, {**plain.arrays, "x2": DeviceAddress(4096)}, library=library, validate="off")


def test_strided_int32_x2_on_the_host_is_made_contiguous(library: aclnn_bindings.Library) -> None:
    plain, _ = make_pair()
    wide = np.zeros((2, 256, 32), np.int32)
    wide[:, :, :16] = plain.arrays["x2"]
    strided = TensorSpec((2, 256, 16), "int32", strides=(8192, 32, 1))
    problem = Problem("atlas_a2", {**plain.problem.arguments, "x2": strided}, plain.attributes)
    with Plan(problem, {**plain.arrays, "x2": wide[:, :, :16]}, library=library) as plan:
        plan.execute()
        assert close(plan.result(), plain)


def test_strides_of_axes_of_length_one_are_rebuilt() -> None:
    operands = Case("one row", "mxfp8", 1, 64, 32, 1, 1, options={"counts": [1]}).make()
    x1 = replace(
        operands.problem.spec("x1"), strides=(1, 1)
    )  # as torch gives the transpose of a (k, 1) tensor
    problem = Problem("ascend950", {**operands.problem.arguments, "x1": x1}, operands.attributes)
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    assert aclnn_bindings.phase_one_status(problem, library) == 161002
    with Plan(problem, operands.arrays, library=library) as plan:
        plan.execute()
        np.testing.assert_allclose(plan.result(), golden(operands).out, rtol=1e-5)


def test_an_executor_that_never_ran_is_destroyed(library: aclnn_bindings.Library, live: Any) -> None:
    plain, _ = make_pair()
    before = live()
    for repeatable in (True, False):
        Plan(plain.problem, plain.arrays, library=library, repeatable=repeatable).close()
    assert live() == before
