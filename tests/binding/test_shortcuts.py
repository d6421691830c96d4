"""The one-shot function's shortcuts say the same as the long way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import monotonic
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aclnn_bindings.operator as operator_module
from aclnn_bindings import RejectedError, SynchronizeTimeoutError, recipes, simulator
from aclnn_bindings import grouped_matmul_finalize_routing_v3 as operator
from aclnn_bindings.functions import PHASES
from aclnn_bindings.preparation import Preparation
from aclnn_bindings.resources import Resources
from aclnn_bindings.routing_check import is_plain
from reference import InvalidProblemError, ProblemError, validate
from reference.cases import Case
from reference.operands import Operands


@settings(max_examples=300, deadline=None)
@given(
    groups=st.lists(st.integers(-2, 9), min_size=2, max_size=2),
    rows=st.lists(st.integers(-1, 5), min_size=8, max_size=8),
    cumulative=st.booleans(),
)
def test_what_is_plainly_fine_is_fine_for_the_validator(
    groups: list[int], rows: list[int], cumulative: bool
) -> None:
    problem = (
        Case("v", "mxfp8", 8, 64, 32, 2, 4, options={"group_list_type": 0 if cumulative else 1})
        .make()
        .problem
    )
    assert problem.attributes.group_list_type == (0 if cumulative else 1)
    group_list, row_index = np.array(groups), np.array(rows)
    if is_plain(group_list, row_index, 8, 4, cumulative):
        assert validate(problem, {"group_list": group_list, "row_index": row_index}).ok


@pytest.mark.parametrize("length", [1, 64, 65, 1000])
@pytest.mark.parametrize(("wrong", "plain"), [(None, True), (-1, False), (4, False)])
def test_every_row_is_looked_at(length: int, wrong: int | None, plain: bool) -> None:
    rows = np.arange(length) % 4
    if wrong is not None:
        rows[-1] = wrong
    assert is_plain(np.array([length]), rows, length, 4, cumulative=False) is plain


@pytest.mark.parametrize(
    ("groups", "cumulative", "plain"),
    [
        ([3, 5], False, True),
        ([3, 6], False, False),
        ([-1, 5], False, False),
        ([3, 8], True, True),
        ([3, 9], True, False),
        ([5, 3], True, False),
        ([-1, 3], True, False),
        ([], False, False),
    ],
)
def test_groups_within_the_rows_are_plain(groups: list[int], cumulative: bool, plain: bool) -> None:
    assert is_plain(np.array(groups, np.int64), np.zeros(8, np.int64), 8, 4, cumulative) is plain


CASES = [
    Case("mx", "mxfp8", 8, 64, 32, 2, 4, options={"bias": True, "shared_rows": 2, "shared_offset": 1}),
    Case("turned", "mxfp8", 8, 96, 40, 2, 4, options={"transpose_x2": True}),
    Case("fp4", "mxfp4", 8, 64, 32, 2, 4),
    Case("w4a8", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2"),
    Case("offset", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a3", options={"offset": True}),
]
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
MX = CASES[0]


@pytest.fixture(autouse=True)
def no_recipes(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """Every test begins without a recipe; what it makes is this one."""
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(recipes, "_recipes", kept)
    return kept


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that are made from now on."""
    made: list[Any] = []

    class Counted(operator_module.Plan):  # type: ignore[misc, name-defined]
        def __init__(self, *arguments: Any, **named: Any) -> None:
            made.append(self)
            super().__init__(*arguments, **named)

    monkeypatch.setattr(operator_module, "Plan", Counted)
    return made


def arguments(operands: Operands, **changes: Any) -> dict[str, Any]:
    attributes = operands.attributes
    names = ("shared_input_weight", "shared_input_offset", "transpose_x2", "group_list_type")
    call = {
        **operands.arrays,
        "dtypes": {name: operands.problem.spec(name).dtype for name in ("x1", "x2")},
        **{name: getattr(attributes, name) for name in names},
        "library": simulator(operands.problem.platform_row.default_soc),
        "batch": operands.batch,
    }
    return {**call, **changes}


@EACH
@pytest.mark.parametrize("validate_as", ["errors", "off"])
def test_the_second_call_of_a_kind_makes_no_plan_and_gives_the_same_bits(
    case: Case, validate_as: str, plans: list[Any], live: Callable[[], dict[str, int]]
) -> None:
    one, other = case.make(0), case.make(1)
    expected = [operator(**arguments(operands, timeout=60)) for operands in (one, other)]
    recipes._recipes.clear()
    plans.clear()
    before = live()
    operator(**arguments(one, validate=validate_as))
    assert len(plans) == 1
    for operands, right in zip((one, other), expected, strict=True):
        inputs = {name: array.tobytes() for name, array in operands.arrays.items()}
        np.testing.assert_array_equal(operator(**arguments(operands, validate=validate_as)), right)
        out = np.full_like(right, np.nan)
        assert operator(**arguments(operands, batch=None, out=out, validate=validate_as)) is out
        np.testing.assert_array_equal(out, right)
        assert {name: array.tobytes() for name, array in operands.arrays.items()} == inputs
    assert len(plans) == 2  # the first call with out is another kind
    assert live() == before


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 5},
        {"batch": None, "out": np.zeros((4, 32), np.float32)},
        {"shared_input_weight": 0.5},
        {"dtypes": {"x1": "float8_e4m3fn"}},
        {"bias": None},
        {"logit": np.ones(16, np.float32)[::2]},
        {"validate": "strict"},
        {"timeout": 60.0},
        {"device": 0},
        {"deterministic": False},
        {"tuning_config": [1]},
        {"library": simulator("Ascend950DT_9591")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_call_is_worked_out_anew(change: dict[str, Any], plans: list[Any]) -> None:
    operands = MX.make()
    for _ in range(2):
        operator(**arguments(operands))
    assert len(plans) == 1
    operator(**arguments(operands, **change))
    assert len(plans) == 2


def test_equal_values_of_another_type_are_another_call() -> None:
    operands = Case("r", "mxfp8", 8, 64, 32, 2, 4).make()
    assert operands.attributes.group_list_type == 1
    operator(**arguments(operands))
    with pytest.raises(ProblemError, match="group_list_type"):
        operator(**arguments(operands, group_list_type=True))


def test_values_are_checked_at_every_call() -> None:
    operands = MX.make()
    for _ in range(2):
        operator(**arguments(operands))
    with pytest.raises(InvalidProblemError, match="row_index"):
        operator(**arguments(operands, row_index=np.full(8, 4)))
    with pytest.raises(InvalidProblemError, match="group_list"):
        operator(**arguments(operands, group_list=np.array([8, 1])))


def test_an_output_that_cannot_be_written_is_refused_at_every_call() -> None:
    operands = MX.make()
    out = np.zeros((4, 32), np.float32)
    for _ in range(2):
        operator(**arguments(operands, batch=None, out=out))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out: expected a writable array"):
        operator(**arguments(operands, batch=None, out=out))


def test_a_refused_call_is_refused_again(no_recipes: dict[Any, Any]) -> None:
    operands = MX.make()
    for _ in range(2):
        with pytest.raises(RejectedError):
            operator(**arguments(operands, logit=np.zeros(8, np.int64), validate="off"))
    assert not no_recipes


@pytest.mark.parametrize(("validate_as", "noted"), [("errors", True), ("off", False)])
def test_a_call_that_phase_one_refuses_later_is_refused_with_its_words(validate_as: str, noted: bool) -> None:
    operands = MX.make()
    for _ in range(2):
        operator(**arguments(operands, validate=validate_as))
    library = simulator(operands.problem.platform_row.default_soc)
    order = f"{PHASES[0]}:1:161002".encode()
    library.check(library.functions.gmmfrSimSetFaults(order), "gmmfrSimSetFaults")
    try:
        with pytest.raises(RejectedError, match=f"{PHASES[0]} returned 161002") as caught:
            operator(**arguments(operands, validate=validate_as))
    finally:
        library.functions.gmmfrSimSetFaults(b"")
    assert "no message" not in str(caught.value)
    assert ("The rules of this project accept this call" in str(caught.value)) is noted


def test_more_workspace_is_taken_when_phase_one_asks_for_it(no_recipes: dict[Any, Any]) -> None:
    operands = MX.make()
    right = operator(**arguments(operands))
    (recipe,) = no_recipes.values()
    needed = recipe.shortcut._workspace_size
    assert needed > 512
    recipe.shortcut._workspace_size = 512
    np.testing.assert_array_equal(operator(**arguments(operands)), right)
    assert recipe.shortcut._workspace_size == needed


def test_workspace_and_its_size_are_one_even_where_another_thread_raises_it(
    no_recipes: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = MX.make()
    right = operator(**arguments(operands))
    (recipe,) = no_recipes.values()
    shortcut, memory = recipe.shortcut, Resources.memory
    needed, shortcut._workspace_size = shortcut._workspace_size, 512

    def interrupted(resources: Resources, nbytes: int) -> Any:
        shortcut._workspace_size = needed  # as another thread would that phase 1 asked for more
        return memory(resources, nbytes)

    monkeypatch.setattr(Resources, "memory", interrupted)
    np.testing.assert_array_equal(operator(**arguments(operands)), right)


def test_what_timed_out_is_given_back_by_the_next_quick_call() -> None:
    small, large = MX.make(), Case("large", "mxfp8", 256, 4096, 4096, 2, 32).make()
    library = simulator(small.problem.platform_row.default_soc)
    operator(**arguments(small))
    with pytest.raises(SynchronizeTimeoutError):
        operator(**arguments(large, timeout=1e-3))
    deadline = monotonic() + 60
    while library.memory_stats().in_use and monotonic() < deadline:
        operator(**arguments(small))
    assert library.memory_stats().in_use == 0


@pytest.mark.parametrize("wrong", [[1.0], [True], (1.0,), (True,)])
def test_tuning_values_of_another_type_are_refused_after_right_ones(wrong: Any) -> None:
    operands = Case("w4a8", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2").make()
    for _ in range(2):
        operator(**arguments(operands, tuning_config=[1]))
    with pytest.raises(ProblemError, match="tuning_config"):
        operator(**arguments(operands, tuning_config=wrong))


def test_the_sign_of_a_zero_weight_counts_whatever_came_before() -> None:
    operands = MX.make()
    group_list = np.zeros(2, np.int64)  # no row is computed: out is the shared input times the weight
    shared = np.ones_like(operands.arrays["shared_input"])
    for weight in (0.0, -0.0, 0.0, -0.0):
        out = operator(
            **arguments(operands, group_list=group_list, shared_input=shared, shared_input_weight=weight)
        )
        assert (np.signbit(out[1:3]) == np.signbit(weight)).all()


def test_bytes_get_their_type_again_from_the_memory(plans: list[Any]) -> None:
    operands = Case("r", "mxfp8", 8, 64, 32, 2, 4).make()
    right = operator(**arguments(operands))
    hints = {"scale": "float8_e8m0fnu"}
    given_bytes = arguments(operands, scale=operands.arrays["scale"].view(np.uint8), dtypes=hints)
    for extra in ({}, {}, {"timeout": 60}):
        np.testing.assert_array_equal(operator(**given_bytes, **extra), right)
    assert len(plans) == 3


def test_arrays_that_must_be_converted_are_converted_each_time() -> None:
    operands = Case("r", "mxfp8", 8, 64, 32, 2, 4).make()
    unit = operator(**arguments(operands, logit=np.ones(8, np.float32)))
    for value in (2.0, 4.0, 8.0):
        wide = np.full((8, 2), value, np.float32)
        wide[:, 1] = np.nan
        np.testing.assert_array_equal(operator(**arguments(operands, logit=wide[:, 0])), unit * value)


def test_many_threads_make_calls_of_one_kind() -> None:
    many = [MX.make(seed) for seed in range(8)]
    right = [operator(**arguments(operands)) for operands in many]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            found = list(pool.map(lambda operands: operator(**arguments(operands)), many))
            assert all(np.array_equal(a, b) for a, b in zip(found, right, strict=True))


def test_only_so_many_kinds_are_kept(monkeypatch: pytest.MonkeyPatch, no_recipes: dict[Any, Any]) -> None:
    monkeypatch.setattr(recipes, "_LIMIT", 3)
    operands = MX.make()
    for batch in range(4, 9):
        operator(**arguments(operands, batch=batch))
    assert len(no_recipes) == 3


def test_small_calls_share_one_block_without_overlap_and_large_ones_do_not() -> None:
    small = Preparation(Case("s", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2").make().problem)
    ends = sorted((offset, offset + small.nbytes[name] + 32) for name, offset in small.slots.items())
    assert all(offset % 512 == 0 for offset, _ in ends)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    assert ends[-1][1] <= small.shared_bytes
    assert "x1 in use" in small.slots
    assert Preparation(Case("l", "mxfp8", 8, 1024, 1024, 2, 4).make().problem).shared_bytes == 0
