"""What is passed to a plan is looked at before anything is done: types, byte order, shapes, layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import DeviceAddress, Plan, phase_one_status
from reference import InvalidProblemError, make_case, validate
from reference.operands import Operands
from reference.problem import Problem, ProblemError, TensorSpec

Make = Callable[..., Plan]


@pytest.fixture
def w0() -> Operands:
    """W4A8: m 4, k 256, n 128, 2 experts, 2 output rows."""
    return make_case("w0")


@pytest.fixture
def a2() -> aclnn_bindings.Library:
    return aclnn_bindings.simulator("Ascend910B2")


@pytest.fixture
def make(w0: Operands, a2: aclnn_bindings.Library) -> Iterator[Make]:
    """Make a plan of w0 with changes; it is closed at the end."""
    made: list[Plan] = []

    def plan(*, problem: Any = None, sources: Any = None, **options: Any) -> Plan:
        described = w0.problem if problem is None else problem
        made.append(Plan(described, sources or w0.arrays, **{"library": a2, **options}))
        return made[-1]

    yield plan
    for each in made:
        each.close()


def with_spec(problem: Problem, name: str, spec: TensorSpec) -> Problem:
    return Problem(problem.platform, {**problem.arguments, name: spec}, problem.attributes)


# ------------------------------------------------------------ host data

WRONG = pytest.mark.parametrize(
    ("value", "got"),
    [
        (np.ones(4), r"float64 \[4\]"),
        ([1.0, 1.0, 1.0, 1.0], r"float64 \[4\]"),
        (np.ones(4, ">f4"), r"float32 in the other byte order \(>f4\) \[4\]"),
        (np.ones(4, np.int32), r"int32 \[4\]"),
        (np.ones(8, np.float16), r"float16 \[8\]"),  # as many bytes
        (np.ones((4, 1), np.float32), r"float32 \[4, 1\]"),
        (np.ones((2, 2), np.float32), r"float32 \[2, 2\]"),
        (np.ones(5, np.float32), r"float32 \[5\]"),
    ],
    ids=["float64", "list", "byte order", "int32", "float16", "rank", "shape", "length"],
)


@WRONG
@pytest.mark.parametrize("rule", ["errors", "off"])
def test_a_plan_takes_no_other_type_order_or_shape(
    make: Make, w0: Operands, value: Any, got: str, rule: str
) -> None:
    with pytest.raises(ValueError, match=rf"logit: expected an array float32 \[4\], got {got}; nothing is"):
        make(sources={**w0.arrays, "logit": value}, validate=rule)


@WRONG
def test_an_update_takes_no_other_type_order_or_shape(make: Make, value: Any, got: str) -> None:
    plan = make()
    before = plan.run()
    with pytest.raises(ValueError, match=rf"logit: expected an array float32 \[4\], got {got}; nothing is"):
        plan.update(logit=value)
    np.testing.assert_array_equal(plan.run(), before)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("x1", np.zeros((4, 256), np.uint8), r"int8 \[4, 256\], got uint8"),
        ("x2", np.zeros((2, 256, 64), np.int8), r"int32 \[2, 256, 16\], got int8 \[2, 256, 64\]"),
        ("scale", np.zeros((2, 1, 128)), r"int64 \[2, 1, 128\], got float64"),
        ("row_index", np.zeros(4, np.int32), r"int64 \[4\], got int32"),
        ("group_list", np.zeros(2, np.uint64), r"int64 \[2\], got uint64"),
    ],
)
def test_every_argument_is_looked_at(make: Make, w0: Operands, name: str, value: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected an array {expected}"):
        make(sources={**w0.arrays, name: value})


def test_values_in_another_layout_are_the_same_values(make: Make, w0: Operands) -> None:
    wanted = make().run()
    spread = {name: np.repeat(array, 2, axis=0)[::2] for name, array in w0.arrays.items()}
    assert not spread["logit"].flags.c_contiguous
    plan = make(sources=spread)
    np.testing.assert_array_equal(plan.run(), wanted)
    plan.update(logit=np.repeat(2 * w0.arrays["logit"], 2)[::2], x2=np.asfortranarray(w0.arrays["x2"]))
    np.testing.assert_array_equal(plan.run(), 2 * wanted)


def test_packed_values_and_bytes_of_floats_are_taken_by_their_own_shape() -> None:
    fp4 = make_case("c18_mxfp8")
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    raw = {name: fp4.arrays[name].view(np.uint8) for name in ("x1", "scale")}
    with Plan(fp4.problem, {**fp4.arrays, **raw}, library=library) as plan:
        np.testing.assert_array_equal(plan.run(), _run(fp4, library))
    wide = {**fp4.arrays, "x1": fp4.arrays["x1"].astype(np.float32)}
    with pytest.raises(ValueError, match=r"x1: expected an array float8_e4m3fn .*, got float32"):
        Plan(fp4.problem, wide, library=library)


def _run(operands: Operands, library: aclnn_bindings.Library) -> Any:
    with Plan(operands.problem, operands.arrays, library=library) as plan:
        return plan.run()


def test_4_bit_values_have_half_the_bytes(small_fp4: Operands) -> None:
    library = aclnn_bindings.simulator("Ascend950PR_9579")
    m, k = small_fp4.problem.m, small_fp4.problem.k
    assert small_fp4.arrays["x1"].shape == (m, k // 2)
    wrong = {**small_fp4.arrays, "x1": np.zeros((m, k), np.uint8)}
    expected = (
        rf"x1: expected an array uint8 \(bytes of float4_e2m1fn\) \[{m}, {k // 2}\], got uint8 \[{m}, {k}\]"
    )
    with pytest.raises(ValueError, match=expected):
        Plan(small_fp4.problem, wrong, library=library)


@pytest.fixture
def small_fp4() -> Operands:
    from reference.cases import Case

    return Case("fp4", "mxfp4", 8, 64, 32, 2, 4, options={"transpose_x2": True}).make()


# ------------------------------------------------------------ refused updates


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"row_index": np.full(4, 99)}, r"row_index values: expected 0\.\.1, got 99"),
        ({"bias": np.zeros(1, np.float32)}, r"bias: expected an array float32 \[2, 128\]"),
        ({"offset": np.zeros(1, np.float32)}, "offset: the call has no such argument"),
        ({"x1": DeviceAddress(4096)}, "x1: update copies from the host"),
        ({"x1": None}, "x1: expected an array, got NoneType"),
    ],
)
def test_a_refused_update_changes_nothing(
    make: Make, w0: Operands, second: dict[str, Any], message: str
) -> None:
    plan = make()
    before = plan.run()
    with pytest.raises(ValueError, match=message):
        plan.update(logit=w0.arrays["logit"] * 3, **second)
    np.testing.assert_array_equal(plan.run(), before)
    plan.update(group_list=w0.arrays["group_list"])  # judged together with the rows in force, not the refused
    np.testing.assert_array_equal(plan.run(), before)


def test_a_refused_bind_changes_nothing(make: Make) -> None:
    plan = make()
    before = plan.run()
    with pytest.raises(ValueError, match="offset: the call has no such argument"):
        plan.bind(logit=DeviceAddress(4096), offset=DeviceAddress(4096))
    with pytest.raises(ValueError, match="bias: bind takes device memory"):
        plan.bind(logit=DeviceAddress(4096), bias=np.zeros((2, 128), np.float32))
    np.testing.assert_array_equal(plan.run(), before)


# ------------------------------------------------------------ layouts

BEHIND = TensorSpec((2, 128), "float32", strides=(-128, 1), offset=128)
OVERLAPPING = TensorSpec((2, 128), "float32", strides=(1, 1))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(BEHIND, "strides of 0 or more"), (OVERLAPPING, "elements that do not overlap")],
    ids=["negative", "overlapping"],
)
def test_an_out_that_no_memory_of_the_plan_holds_is_refused(
    make: Make, w0: Operands, spec: TensorSpec, expected: str
) -> None:
    problem = with_spec(w0.problem, "out", spec)
    assert [v.rule for v in validate(problem).violations if v.level == "hazard"] == ["out-overlap"]
    with pytest.raises(InvalidProblemError, match=rf"out strides: expected {expected}.*\[out-overlap\]"):
        make(problem=problem)
    with pytest.raises(ValueError, match=f"out: expected {expected}, got float32 ND"):
        make(problem=problem, validate="off")


def test_an_input_that_lies_backwards_is_refused(make: Make, w0: Operands) -> None:
    problem = with_spec(w0.problem, "logit", TensorSpec((4,), "float32", strides=(-1,), offset=3))
    assert phase_one_status(problem) == 0
    with pytest.raises(InvalidProblemError, match=r"logit strides: .*\[negative-strides\]"):
        make(problem=problem)
    with pytest.raises(ValueError, match="logit: expected strides of 0 or more, got float32 ND"):
        make(problem=problem, validate="off")


def test_rows_that_interleave_without_sharing_memory_are_no_overlap(make: Make, w0: Operands) -> None:
    problem = with_spec(w0.problem, "out", TensorSpec((2, 128), "float32", strides=(1, 2)))
    np.testing.assert_array_equal(make(problem=problem).run(), make().run())


@pytest.mark.parametrize(
    ("shape", "strides", "overlap"),
    [
        ((3, 2), (2, 3), False),  # 0 3 2 5 4 7
        ((4, 2), (2, 3), False),  # 0 3 2 5 4 7 6 9
        ((4, 3), (2, 3), True),  # (3, 0) and (0, 2) are both 6
        ((1, 4), (0, 1), False),
        ((2, 4), (0, 1), True),
        ((2, 3, 4), (12, 4, 1), False),
        ((2, 3, 4), (8, 4, 1), True),
        ((0, 4), (0, 0), False),
    ],
)
def test_overlap(shape: tuple[int, ...], strides: tuple[int, ...], overlap: bool) -> None:
    places = [sum(i * s for i, s in zip(at, strides, strict=True)) for at in np.ndindex(shape)]
    assert (len(set(places)) < len(places)) is overlap
    assert TensorSpec(shape, "float32", strides=strides).overlaps is overlap


# ------------------------------------------------------------ other arguments


def test_a_call_for_another_platform_names_both_and_the_way_out(make: Make) -> None:
    expected = (
        r"library: expected one of Atlas A2, which the problem is described for \(platform 'atlas_a2'\), "
        r"got Ascend950PR_9579, which is Ascend 950 \(platform 'ascend950'\); describe the call with "
        r"platform='ascend950', or pass library=aclnn_bindings.simulator\('Ascend910B2'\)"
    )
    with pytest.raises(ValueError, match=expected):
        make(library=aclnn_bindings.simulator("Ascend950PR_9579"))
    with pytest.raises(ValueError, match=r"which is Atlas A3 .*platform='atlas_a3'"):
        make(library=aclnn_bindings.simulator("Ascend910_9391"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"library": "/x"}, r"library: expected a Library, got '/x' \(str\); open one with find_library"),
        ({"device": "npu"}, r"device: expected the number of a device, an int, or None, got 'npu' \(str\)"),
        ({"device": True}, r"device: expected the number of a device, an int, or None, got True \(bool\)"),
        ({"stream": "x"}, r"stream: expected the address of a stream, an int, or None, got 'x' \(str\)"),
        ({"timeout": "x"}, r"timeout: expected seconds, a number, or None, got 'x' \(str\)"),
        ({"deterministic": "no"}, r"deterministic: expected True, False or None, got 'no' \(str\)"),
        ({"sources": [1]}, r"sources: expected a mapping of arguments to their data, got an object \(list\)"),
        ({"problem": 7}, r"problem: expected a Problem, got 7 \(int\); make one with Problem.from_arrays"),
        ({"out": [[0.0] * 128] * 2}, r"out: expected an array to write into, .* got an object \(list\)"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_named(make: Make, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(**options)


def test_no_problem_is_no_problem(w0: Operands, a2: aclnn_bindings.Library) -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="problem: expected a Problem, got None"):
        Plan(nothing, w0.arrays, library=a2)
    with pytest.raises(TypeError, match="problem: expected a Problem, got None"):
        phase_one_status(nothing)


def test_an_out_in_the_other_byte_order_says_so(make: Make) -> None:
    with pytest.raises(ValueError, match=r"out: expected .* float32 .* in the other byte order \(>f4\)"):
        make(out=np.zeros((2, 128), ">f4"))


def test_libraries_are_named_by_text(w0: Operands) -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match=r"soc: expected the name of a SoC or None, got 5 \(int\)"):
        aclnn_bindings.simulator(wrong)
    with pytest.raises(TypeError, match=r"path: expected a path or None, got 5 \(int\)"):
        aclnn_bindings.find_library(wrong)
    with pytest.raises(TypeError, match=r"library: expected a Library, got 5 \(int\)"):
        aclnn_bindings.grouped_matmul_finalize_routing_v3(**w0.arrays, batch=2, library=wrong)
    assert aclnn_bindings.simulator("Ascend910B2") is aclnn_bindings.simulator("Ascend910B2")


# ------------------------------------------------------------ sizes beyond 64 bits


def test_compact_strides_beyond_64_bits_are_phase_ones_to_judge(w0: Operands) -> None:
    problem = with_spec(w0.problem, "x2", TensorSpec((2, 256, 2**61), "int32"))
    assert phase_one_status(problem) == validate(problem).status == 161002


@pytest.mark.parametrize(
    "change", [{"shape": (2, 256, 2**64)}, {"strides": (2**70, 16, 1)}, {"offset": 2**63}]
)
def test_numbers_beyond_64_bits_are_no_descriptor(w0: Operands, change: dict[str, Any]) -> None:
    spec = replace(w0.problem.spec("x2"), **change)
    with pytest.raises(ProblemError, match="x2: expected dims, strides, offset and storage of 64 bits each"):
        phase_one_status(with_spec(w0.problem, "x2", spec))
