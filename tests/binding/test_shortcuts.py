"""The one-shot function's shortcuts say the same as the long way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aclnn_bindings import recipes
from aclnn_bindings.preparation import Preparation
from aclnn_bindings.recipes import describe
from aclnn_bindings.routing_check import is_plain
from reference import validate
from reference.cases import Case
from reference.operands import Operands, describe_call

PLAIN: dict[str, Any] = {"shared_input_weight": 1.0, "shared_input_offset": 0, "tuning_config": None}


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


def tensors_of(operands: Operands) -> dict[str, Any]:
    return dict(operands.arrays)


def test_a_remembered_description_is_the_one_that_was_made() -> None:
    operands, other = (Case("r", "mxfp8", 8, 64, 32, 2, 4).make(seed) for seed in (0, 1))
    first, _, plain = describe("ascend950", tensors_of(operands), PLAIN, 4, None, None)
    again, inputs, _ = describe("ascend950", tensors_of(other), PLAIN, 4, None, None)
    assert plain
    assert again is first
    assert first == describe_call(platform="ascend950", batch=4, **operands.arrays)[0]
    assert all(inputs[name] is array for name, array in other.arrays.items())


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 3},
        {"platform": "atlas_a2"},
        {"attributes": {**PLAIN, "shared_input_weight": 0.5}},
        {"dtypes": {"x1": "float8_e5m2"}},
        {"tensors": {"logit": np.zeros(9, np.float32)}},
        {"tensors": {"logit": np.zeros(8, np.float64)}},
        {"tensors": {"bias": np.zeros((2, 32), ml_dtypes.bfloat16)}},
    ],
)
def test_another_call_is_described_anew(change: dict[str, Any]) -> None:
    operands = Case("r", "mxfp8", 8, 64, 32, 2, 4).make()
    bytes_of_x1 = {**operands.arrays, "x1": operands.arrays["x1"].view(np.uint8)}
    base: dict[str, Any] = {
        "platform": "ascend950",
        "batch": 4,
        "dtypes": {"x1": "float8_e4m3fn"},
        "attributes": PLAIN,
    }
    tensors = {**bytes_of_x1, **change.pop("tensors", {})}

    def problem_of(tensors: dict[str, Any], **call: Any) -> Any:
        return describe(call["platform"], tensors, call["attributes"], call["batch"], None, call["dtypes"])[0]

    assert problem_of(bytes_of_x1, **base) != problem_of(tensors, **{**base, **change})


def test_bytes_get_their_type_again_from_the_memory() -> None:
    operands = Case("r", "mxfp8", 8, 64, 32, 2, 4).make()
    given_bytes = {**operands.arrays, "scale": operands.arrays["scale"].view(np.uint8)}
    hints = {"scale": "float8_e8m0fnu"}
    for _ in range(2):
        problem, inputs, _ = describe("ascend950", given_bytes, PLAIN, 4, None, hints)
        assert problem.spec("scale").dtype == "float8_e8m0fnu"
        assert inputs["scale"].dtype == ml_dtypes.float8_e8m0fnu
        assert np.shares_memory(inputs["scale"].view(np.uint8), given_bytes["scale"])


def test_arrays_that_must_be_converted_are_converted_each_time() -> None:
    operands = Case("r", "mxfp8", 8, 64, 32, 2, 4).make()
    for value in (2.0, 3.0):
        wide = np.full((8, 2), value, np.float32)[:, ::2]
        call = {**operands.arrays, "logit": wide[:, 0]}
        _, inputs, _ = describe("ascend950", call, PLAIN, 4, None, None)
        assert inputs["logit"].flags.c_contiguous
        assert (inputs["logit"] == value).all()


def test_only_so_many_descriptions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_LIMIT", 3)
    monkeypatch.setattr(recipes, "_recipes", {})
    arrays = tensors_of(Case("r", "mxfp8", 8, 64, 32, 2, 4).make())
    for batch in range(1, 8):
        describe("ascend950", arrays, PLAIN, batch, None, None)
    assert len(recipes._recipes) == 3


def test_small_calls_share_one_block_without_overlap_and_large_ones_do_not() -> None:
    small = Preparation(Case("s", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2").make().problem)
    ends = sorted((offset, offset + small.nbytes[name] + 32) for name, offset in small.slots.items())
    assert all(offset % 512 == 0 for offset, _ in ends)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    assert ends[-1][1] <= small.shared_bytes
    assert "x1 in use" in small.slots
    assert Preparation(Case("l", "mxfp8", 8, 1024, 1024, 2, 4).make().problem).shared_bytes == 0
