"""Two implementations of one contract: the validator's status is that of the simulator's phase 1.

Problems that pass are broken in one to three places.  GMMFR_EXAMPLES raises the number of examples; then they
are drawn anew each time, otherwise they are the same in every run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from reference.acl import TENSOR_FORMATS
from reference.formats import FORMATS, MX_ELEMENTS
from reference.problem import ARGUMENTS, Problem, TensorSpec, compact_strides
from reference.validator import validate

EXAMPLES = os.environ.get("GMMFR_EXAMPLES")
INT64_MAX = 2**63 - 1

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def base_problems(draw: Draw, calls: SimpleNamespace) -> Problem:
    """A problem that phase 1 accepts, on any of the paths, as view or contiguous, ND or NZ."""
    m, e = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    batch = draw(st.integers(0, m))
    shared = draw(st.integers(0, batch))
    offset = draw(st.integers(0, batch - shared))
    common = {"m": m, "e": e, "batch": batch, "shared": shared, "shared_input_offset": offset}
    common["group_list_type"] = draw(st.sampled_from((0, 1)))
    path = draw(st.sampled_from(("w4a8", "w4a8_nz", "mx", "mx_view", "fp4", "fp4_nz", "mxa8w4", "pertoken")))
    return BUILDERS[path](draw, calls, common)


def build_w4a8(draw: Draw, calls: SimpleNamespace, common: dict[str, Any]) -> Problem:
    k, n = draw(st.sampled_from((192, 256, 2048))), draw(st.sampled_from((72, 128, 7168)))
    platform = draw(st.sampled_from(("atlas_a2", "atlas_a3")))
    tuning = draw(st.sampled_from((None, (), (0,), (common["m"],), (1, 7))))
    problem = calls.w4a8(k=k, n=n, platform=platform, tuning_config=tuning, **common)
    if draw(st.booleans()):
        problem = with_argument(problem, "offset", TensorSpec((common["e"], 1, n), "float32"))
    return problem


def build_w4a8_nz(draw: Draw, calls: SimpleNamespace, common: dict[str, Any]) -> Problem:
    k, n = draw(st.sampled_from((192, 320))), draw(st.sampled_from((128, 192)))
    storage = (common["e"], n // 64, -(-k // 16), 16, 8)
    x2 = TensorSpec((common["e"], k, n // 8), "int32", "FRACTAL_NZ", storage_shape=storage)
    return calls.w4a8(k=k, n=n, x2=x2, **common)


def build_mx(draw: Draw, calls: SimpleNamespace, common: dict[str, Any]) -> Problem:
    k, n = draw(st.sampled_from((1, 32, 64, 65, 128, 4096))), draw(st.sampled_from((1, 2, 63, 64)))
    dtype = draw(st.sampled_from(("float8_e4m3fn", "float8_e5m2")))
    problem = calls.mx(k=k, n=n, elements=dtype, transposed=draw(st.booleans()), **common)
    if draw(st.booleans()):
        problem = with_argument(problem, "x1", replace(problem.spec("x1"), dtype="float8_e5m2"))
    return as_torch_npu(problem) if draw(st.booleans()) else problem


def build_mx_view(draw: Draw, calls: SimpleNamespace, common: dict[str, Any]) -> Problem:
    k, n, e = draw(st.sampled_from((1, 64, 128, 4096))), draw(st.sampled_from((1, 2, 64))), common["e"]
    groups = -(-k // 64)
    problem = calls.mx(k=k, n=n, **common)
    view = replace(problem.spec("x2"), strides=(k * n, 1, k))
    problem = with_argument(problem, "x2", view)
    scale = TensorSpec((e, groups, n, 2), "float8_e8m0fnu", strides=(2 * groups * n, 2, 2 * groups, 1))
    return with_argument(problem, "scale", scale)


def build_fp4(draw: Draw, calls: SimpleNamespace, common: dict[str, Any]) -> Problem:
    k, transposed = draw(st.sampled_from((4, 64, 66))), draw(st.booleans())
    n = draw(st.sampled_from((2, 63, 64) if transposed else (2, 64)))
    return calls.mx(k=k, n=n, elements="float4_e2m1fn", transposed=transposed, **common)


def build_fp4_nz(draw: Draw, calls: SimpleNamespace, common: dict[str, Any]) -> Problem:
    k, n, e = 128, draw(st.sampled_from((64, 128))), common["e"]
    x2 = TensorSpec((e, k, n), "float4_e2m1fn", "FRACTAL_NZ", storage_shape=(e, n // 64, k // 16, 16, 64))
    return calls.mx(k=k, n=n, elements="float4_e2m1fn", x2=x2, **common)


def build_mxa8w4(draw: Draw, calls: SimpleNamespace, common: dict[str, Any]) -> Problem:
    return calls.mxa8w4(k=draw(st.sampled_from((32, 64, 96))), n=draw(st.sampled_from((32, 64))), **common)


def build_pertoken(draw: Draw, calls: SimpleNamespace, common: dict[str, Any]) -> Problem:
    dtype = draw(st.sampled_from(("float32", "bfloat16")))
    return calls.pertoken(
        k=draw(st.sampled_from((2, 64))), n=draw(st.sampled_from((2, 64))), scale=dtype, **common
    )


BUILDERS: dict[str, Callable[[Draw, SimpleNamespace, dict[str, Any]], Problem]] = {
    "w4a8": build_w4a8,
    "w4a8_nz": build_w4a8_nz,
    "mx": build_mx,
    "mx_view": build_mx_view,
    "fp4": build_fp4,
    "fp4_nz": build_fp4_nz,
    "mxa8w4": build_mxa8w4,
    "pertoken": build_pertoken,
}


def with_argument(problem: Problem, name: str, spec: TensorSpec | None) -> Problem:
    return replace(problem, arguments={**problem.arguments, name: spec})


def as_torch_npu(problem: Problem) -> Problem:
    """The descriptors that torch_npu makes: NCL and NCHW by rank, flat storage."""
    formats = {3: "NCL", 4: "NCHW"}
    arguments = {}
    for name, spec in problem.arguments.items():
        if spec is not None and name != "out":
            spec = replace(spec, format=formats.get(spec.rank, "ND"), storage_shape=(spec.size,))
        arguments[name] = spec
    return replace(problem, arguments=arguments)


@st.composite
def mutated(draw: Draw, problem: Problem) -> Problem:
    """``problem`` with one to three changes."""
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.sampled_from(CHANGES))
        problem = change(draw, problem)
        note(f"{change.__name__}: {problem}")
    return problem


def pick(draw: Draw, problem: Problem) -> tuple[str, TensorSpec]:
    present = [name for name in ARGUMENTS if problem.arguments[name] is not None]
    name = draw(st.sampled_from(present or ["x1"]))
    return name, problem.arguments[name] or TensorSpec((2, 2), "float32")


def change_extent(draw: Draw, problem: Problem) -> Problem:
    name, spec = pick(draw, problem)
    if not spec.shape:
        return problem
    axis = draw(st.integers(0, spec.rank - 1))
    old = spec.shape[axis]
    new = draw(
        st.sampled_from(
            (0, 1, 2, 3, old + 1, max(old - 1, 0), 2 * old, 8 * old, old // 8, 64, 128, 1024, 1025)
        )
    )
    shape = (*spec.shape[:axis], new, *spec.shape[axis + 1 :])
    return with_argument(problem, name, replace(spec, shape=shape, strides=None))


def change_extents_everywhere(draw: Draw, problem: Problem) -> Problem:
    """Turn every axis of one length into another: m, k, n or e as a whole."""
    lengths = {length for spec in problem.arguments.values() if spec is not None for length in spec.shape}
    old, new = (
        draw(st.sampled_from(sorted(lengths) or [1])),
        draw(st.sampled_from((0, 1, 2, 64, 192, 1025, 18496))),
    )
    for name, spec in problem.arguments.items():
        if spec is not None:
            shape = tuple(new if length == old else length for length in spec.shape)
            problem = with_argument(problem, name, replace(spec, shape=shape, strides=None))
    return problem


def change_k(draw: Draw, problem: Problem) -> Problem:
    """Another k for x1, x2 and both scales."""
    k = draw(st.sampled_from((0, 1, 2, 3, 32, 33, 64, 100, 128, 144, 192, 2112)))
    groups = -(-k // 64)
    axis = 2 if problem.attributes.transpose_x2 else 1
    for name, at, length in (
        ("x1", 1, k),
        ("x2", axis, k),
        ("pertoken_scale", 1, groups),
        ("scale", axis, groups),
    ):
        problem = with_extent(
            problem, name, at, length, keep=name == "scale" and problem.platform != "ascend950"
        )
    return problem


def change_n(draw: Draw, problem: Problem) -> Problem:
    """Another n for x2, scale, bias, shared_input and out."""
    n = draw(st.sampled_from((0, 1, 2, 31, 32, 48, 63, 64, 72, 80, 128)))
    axis = 1 if problem.attributes.transpose_x2 else 2
    packed = problem.platform != "ascend950"
    x2_extent = n // 8 if packed else n
    for name, at, length in (("x2", axis, x2_extent), ("scale", axis, n), ("bias", 1, n), ("offset", 2, n)):
        problem = with_extent(problem, name, at, length)
    return with_extent(with_extent(problem, "shared_input", 1, n), "out", 1, n)


def with_extent(problem: Problem, name: str, axis: int, length: int, keep: bool = False) -> Problem:
    spec = problem.arguments[name]
    if keep or spec is None or spec.rank <= axis:
        return problem
    shape = (*spec.shape[:axis], length, *spec.shape[axis + 1 :])
    return with_argument(problem, name, replace(spec, shape=shape, strides=None))


def change_elements(draw: Draw, problem: Problem) -> Problem:
    """Other MX formats for x1 and x2."""
    for name in ("x1", "x2"):
        spec = problem.arguments[name]
        if spec is not None:
            problem = with_argument(problem, name, replace(spec, dtype=draw(st.sampled_from(MX_ELEMENTS))))
    return problem


def change_rank(draw: Draw, problem: Problem) -> Problem:
    name, spec = pick(draw, problem)
    grown = [(*spec.shape[:at], 1, *spec.shape[at:]) for at in range(spec.rank + 1)]
    shrunk = [spec.shape[1:], spec.shape[:-1], ()]
    shape = draw(st.sampled_from([*grown, *shrunk, (1,) * 8]))
    return with_argument(problem, name, replace(spec, shape=shape, strides=None))


def change_dtype(draw: Draw, problem: Problem) -> Problem:
    name, spec = pick(draw, problem)
    return with_argument(problem, name, replace(spec, dtype=draw(st.sampled_from(sorted(FORMATS)))))


def change_format(draw: Draw, problem: Problem) -> Problem:
    name, spec = pick(draw, problem)
    likely = ("ND", "NCL", "NCHW", "FRACTAL_NZ", "FRACTAL_NZ_C0_32")
    return with_argument(
        problem, name, replace(spec, format=draw(st.sampled_from((*likely, *TENSOR_FORMATS))))
    )


def change_strides(draw: Draw, problem: Problem) -> Problem:
    name, spec = pick(draw, problem)
    compact = compact_strides(spec.shape)
    options = [compact, tuple(2 * stride for stride in compact), (1,) * spec.rank]
    if spec.rank >= 2:
        rows, columns = spec.shape[-2:]
        batches = tuple(stride for stride in compact[:-2])
        options += [(*batches, 1, rows), (*batches, 1, columns), (*batches, 1, 1)]
    if spec.rank == 4:
        _, one, two, _ = spec.shape
        options += [(2 * one * two, 2, 2 * one, 1), (2, 2, 2 * one, 1)]
    return with_argument(problem, name, replace(spec, strides=draw(st.sampled_from(options))))


def change_storage(draw: Draw, problem: Problem) -> Problem:
    name, spec = pick(draw, problem)
    shapes = [
        None,
        (spec.size,),
        spec.shape,
        (2, 4, 8, 16, 32),
        (2, 1, 8, 16, 64),
        (1, 1, 12, 16, 8),
        (2,) * 10,
    ]
    return with_argument(problem, name, replace(spec, storage_shape=draw(st.sampled_from(shapes))))


def change_offset(draw: Draw, problem: Problem) -> Problem:
    name, spec = pick(draw, problem)
    return with_argument(problem, name, replace(spec, offset=draw(st.sampled_from((0, 1, 64)))))


def drop_argument(draw: Draw, problem: Problem) -> Problem:
    return with_argument(problem, draw(st.sampled_from(ARGUMENTS)), None)


def add_argument(draw: Draw, problem: Problem) -> Problem:
    name = draw(st.sampled_from(("offset", "antiquant_scale", "antiquant_offset", "bias", "shared_input")))
    shape = draw(st.sampled_from(((1, 1, 128), (2, 1, 128), (2, 128), (1, 64))))
    return with_argument(problem, name, TensorSpec(shape, draw(st.sampled_from(("float32", "bfloat16")))))


def change_attribute(draw: Draw, problem: Problem) -> Problem:
    name, values = draw(
        st.sampled_from(
            (
                ("dtype", (0, 1, 2, 27)),
                ("shared_input_offset", (-1, 0, 1, 2, 3, 6, INT64_MAX - 1, INT64_MAX)),
                ("transpose_x1", (True, False)),
                ("transpose_x2", (True, False)),
                ("group_list_type", (-1, 0, 1, 2)),
                ("tuning_config", (None, (), (-1,), (0, 9), (1,), (5,), (6,), (INT64_MAX,))),
            )
        )
    )
    return replace(problem, attributes=replace(problem.attributes, **{name: draw(st.sampled_from(values))}))


def change_platform(draw: Draw, problem: Problem) -> Problem:
    return replace(problem, platform=draw(st.sampled_from(("atlas_a2", "atlas_a3", "ascend950"))))


CHANGES = (
    change_extent,
    change_extent,
    change_extents_everywhere,
    change_k,
    change_n,
    change_elements,
    change_rank,
    change_dtype,
    change_format,
    change_strides,
    change_storage,
    change_offset,
    drop_argument,
    add_argument,
    change_attribute,
    change_attribute,
    change_platform,
)


@pytest.fixture(scope="module")
def phase_one() -> Callable[[Problem], int]:
    from aclnn_bindings.phase_one import phase_one_status

    return phase_one_status


@settings(
    max_examples=int(EXAMPLES or 300),
    derandomize=EXAMPLES is None,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_broken_problems_get_the_status_of_the_simulator(
    data: st.DataObject, calls: SimpleNamespace, phase_one: Callable[[Problem], int]
) -> None:
    problem = data.draw(mutated(data.draw(base_problems(calls))))
    report = validate(problem)
    assert (report.status, problem) == (phase_one(problem), problem)
    assert report.ok <= (report.status == 0)


@settings(
    max_examples=100, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_the_starting_points_are_accepted_by_both(
    data: st.DataObject, calls: SimpleNamespace, phase_one: Callable[[Problem], int]
) -> None:
    problem = data.draw(base_problems(calls))
    assert (validate(problem).status, phase_one(problem)) == (0, 0)


@pytest.mark.parametrize(
    ("x1", "tuning", "status"),
    [
        (TensorSpec((1, 4, 256), "int8"), None, 561103),  # m is axis -2: only shape inference minds
        (TensorSpec((4, 1, 256), "int8"), None, 161002),  # m = 1 is less than the rows of out
        (TensorSpec((1, 4, 256), "int8"), (2,), 161002),  # the tuning hint is held against axis 0
        (TensorSpec((9, 4, 256), "int8"), (9,), 561103),
        (TensorSpec((4, 256), "int8", strides=(1, 4)), (256,), 0),  # turned: axis 0 is k
        (TensorSpec((4, 256), "int8", strides=(1, 4)), (257,), 161002),
    ],
)
def test_x1_with_more_axes_or_turned_on_atlas_a2(
    calls: SimpleNamespace, phase_one: Callable[[Problem], int], x1: TensorSpec, tuning: Any, status: int
) -> None:
    problem = calls.w4a8(m=4, k=256, n=128, e=2, batch=2, x1=x1, tuning_config=tuning)
    assert (validate(problem).status, phase_one(problem)) == (status, status)
