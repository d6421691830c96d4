"""Collecting a call from what a caller has: layouts of out, attributes of other types, copies of a call."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_bindings
from reference import Operands, Problem, ProblemError, make_case
from reference.validator import validate

W0 = dict(make_case("w0").arrays)


def collect(**changes: Any) -> Operands:
    return Operands.from_arrays(platform="atlas_a2", **{**W0, **changes})


def backwards() -> np.ndarray[Any, Any]:
    return np.zeros((2, 128), np.float32)[::-1]


def overlapping() -> np.ndarray[Any, Any]:
    return np.lib.stride_tricks.as_strided(np.zeros(400, np.float32), (2, 128), (4, 4))


def between_other_fields() -> np.ndarray[Any, Any]:
    return np.zeros((2, 128), [("value", np.float32), ("tag", np.int16)])["value"]


@pytest.mark.parametrize("make", [backwards, overlapping, between_other_fields])
def test_an_out_whose_strides_no_descriptor_can_name_is_refused(make: Any) -> None:
    out = make()
    message = "out: expected elements that lie forwards in memory without overlap, got strides"
    with pytest.raises(ProblemError, match=message):
        collect(out=out)
    with pytest.raises(ProblemError, match=message):
        aclnn_bindings.grouped_matmul_finalize_routing_v3(
            **W0, out=out, library=aclnn_bindings.simulator("Ascend910B2")
        )
    assert not out.any()


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((2, 128), np.float32),
        np.zeros((128, 2), np.float32).T,
        np.zeros((4, 256), np.float32)[::2, ::2],
        np.zeros((1, 128), np.float32)[::-1],
    ],
    ids=["contiguous", "transposed", "with gaps", "one row backwards"],
)
def test_an_out_with_gaps_or_turned_is_taken(out: np.ndarray[Any, Any]) -> None:
    assert collect(out=out).problem.spec("out").shape == out.shape


def test_an_out_of_the_other_byte_order_is_named() -> None:
    with pytest.raises(ProblemError, match="out: expected native byte order, got >f4; pass"):
        collect(out=np.zeros((2, 128), ">f4"))


@pytest.mark.parametrize("batch", [-1, 2.0, "2", True])
def test_batch_is_a_number_of_rows(batch: Any) -> None:
    with pytest.raises(
        ProblemError, match="batch: expected the number of rows of out, an integer of 0 or more, got"
    ):
        collect(batch=batch)


@pytest.mark.parametrize("given", [[2], (2,), range(2, 3), np.array([2]), [np.int64(2)]])
def test_tuning_config_takes_what_holds_integers(given: Any) -> None:
    assert collect(batch=2, tuning_config=given).attributes.tuning_config == (2,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (2, "tuning_config: expected a list of int, got 2"),
        (np.array(2), "tuning_config: expected a list of int, got 2"),
        ("ab", "tuning_config: expected a list of int, got 'ab'"),
        ([2.7], r"tuning_config\[0\]: expected a 64-bit integer, got 2.7"),
    ],
)
def test_tuning_config_of_another_kind_is_refused_not_rounded(given: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        collect(batch=2, tuning_config=given)


def test_what_is_no_array_is_named() -> None:
    with pytest.raises(ProblemError, match="group_list: expected an array, got list"):
        collect(batch=2, group_list=[[1], [2, 3]])
    with pytest.raises(ProblemError, match="dtypes: expected a mapping of arguments to formats, got 'int8'"):
        collect(batch=2, dtypes="int8")


def test_a_scalar_is_not_taken_for_a_list_of_one() -> None:
    assert collect(batch=2, group_list=np.array(2)).problem.spec("group_list").shape == ()


def test_a_call_can_be_copied_and_pickled() -> None:
    call = make_case("w0")
    for again in (copy.deepcopy(call), pickle.loads(pickle.dumps(call))):
        assert again.problem == call.problem
        assert all((again.arrays[name] == call.arrays[name]).all() for name in call.arrays)
        with pytest.raises(TypeError):
            again.arrays["x1"] = None


def guessed_out(**changes: Any) -> tuple[int, ...]:
    """The shape of an out that nobody passed, after looking that no rule finds fault with it."""
    problem = Problem.from_arrays(**{"platform": "atlas_a2", **W0, **changes})
    found = [violation.message for violation in validate(problem).violations]
    assert [message for message in found if message.startswith("out")] == []
    return problem.spec("out").shape


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (4, 128)),
        ({"batch": 2}, (2, 128)),
        ({"transpose_x2": True}, (4, 128)),
        ({"platform": "ascend950"}, (4, 16)),
        ({"platform": "ascend950", "transpose_x2": True}, (4, 256)),
        ({"x1": None}, (4, 128)),
        ({"x2": None}, (4, 128)),
        ({"x1": np.zeros(256, np.int8)}, (256, 128)),
        ({"x1": np.int8(1), "x2": np.int32(1)}, (4, 128)),
    ],
    ids=[
        "the call as it is",
        "rows given",
        "a flag that A2/A3 refuses",
        "words of another platform",
        "both",
        "no x1",
        "no x2",
        "x1 of rank 1",
        "scalars",
    ],
)
def test_an_out_that_nobody_passed_is_never_what_is_wrong(
    changes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    """W0: x1 (4, 256), x2 (2, 256, 16) words of eight INT4 values, so n = 128; Ascend 950 has no words."""
    assert guessed_out(**changes) == shape


def test_an_odd_number_of_unpacked_4_bit_values_says_how_to_go_on() -> None:
    message = (
        r"x1: expected an even number of 4-bit values along axis 1, got 7 in shape \[4, 7\]: the device "
        "holds two in a byte; pad the axis with zeros"
    )
    with pytest.raises(ProblemError, match=message):
        collect(x1=np.zeros((4, 7), ml_dtypes.float4_e2m1fn))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float4_e2m1fn", "expected float4_e2m1fn, or uint8 with two values in a byte"),
        ("float8_e4m3fn", "expected float8_e4m3fn or uint8"),
        ("bfloat16", "expected bfloat16"),
    ],
)
def test_an_array_that_does_not_hold_what_dtypes_says(dtype: str, expected: str) -> None:
    message = f"x1: dtypes says {dtype}, the array holds int64; {expected}$"
    with pytest.raises(ProblemError, match=message):
        collect(x1=np.zeros((4, 256), np.int64), dtypes={"x1": dtype})
