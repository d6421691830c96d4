"""What the golden refuses to compute, as it would look like a result: nothing wraps, nothing is guessed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from reference import Attributes, Operands, Problem, golden, golden_stages, make_case
from reference.problem import TensorSpec


def change(name: str, arrays: dict[str, Any] | None = None, **attributes: Any) -> Operands:
    call = make_case(name)
    problem = Problem(call.problem.platform, call.problem.arguments, Attributes(**attributes))
    return Operands(problem, {**call.arrays, **(arrays or {})})


@pytest.mark.parametrize("name", ["w0", "m0"])
@pytest.mark.parametrize("kind", [-1, 2])
def test_a_group_list_of_another_type_is_not_read_as_totals(name: str, kind: int) -> None:
    with pytest.raises(ValueError, match=r"group_list_type: expected 0 .* or 1 .*, got "):
        golden(change(name, group_list_type=kind))


@pytest.mark.parametrize("offset", [-2, -1, 2, 2**63 - 1])
def test_shared_rows_outside_out_are_not_written_elsewhere(offset: int) -> None:
    shared = {"shared_input": np.ones((1, 128), ml_dtypes.bfloat16)}
    with pytest.raises(ValueError, match="expected 1 rows of shared_input within 2 rows of out, got offset"):
        golden(change("w0", shared, shared_input_offset=offset))


def test_shared_rows_at_the_end_of_out_are_in_range() -> None:
    shared = {"shared_input": np.ones((1, 128), ml_dtypes.bfloat16)}
    assert golden(change("w0", shared, shared_input_offset=1)).out[:, 0].tolist() == [-64, -223]


def without(call: Operands, name: str) -> Operands:
    return Operands(call.problem, {key: array for key, array in call.arrays.items() if key != name})


@pytest.mark.parametrize("compute", [golden, golden_stages])
@pytest.mark.parametrize(
    ("case", "name"),
    [("w0", "bias"), ("w0", "logit"), ("w0", "pertoken_scale"), ("m0", "scale"), ("m0", "row_index")],
)
def test_a_missing_argument_is_named(compute: Any, case: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected an array, got none; .* needs one"):
        compute(without(make_case(case), name))


def test_bias_may_be_absent_on_ascend_950() -> None:
    assert np.isfinite(golden(without(make_case("m0"), "bias")).out).all()


@pytest.mark.parametrize("compute", [golden, golden_stages])
@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("logit", np.ones(3, np.float32), r"logit: expected shape \(4,\), got \(3,\)"),
        ("logit", np.ones((4, 1), np.float32), r"logit: expected shape \(4,\), got \(4, 1\)"),
        ("pertoken_scale", np.ones(1, np.float32), r"pertoken_scale: expected shape \(4,\), got \(1,\)"),
        ("row_index", np.zeros(2, np.int64), r"row_index: expected shape \(4,\), got \(2,\)"),
        ("group_list", np.ones(3, np.int64), r"group_list: expected shape \(2,\), got \(3,\)"),
        ("bias", np.zeros((2, 64), np.float32), r"bias: expected shape \(2, 128\), got \(2, 64\)"),
        ("offset", np.zeros((2, 128), np.float32), r"offset: expected shape \(2, 1, 128\), got \(2, 128\)"),
        ("scale", np.zeros((1, 1, 128), np.int64), r"scale: expected shape \(2, 1, 128\), got \(1, 1, 128\)"),
        ("shared_input", np.zeros((1, 1)), r"shared_input: expected shape \(\?, 128\), got \(1, 1\)"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(compute: Any, name: str, array: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        compute(change("w0", {name: array}))


def test_weights_of_another_k_are_named() -> None:
    call = make_case("w0")
    specs = {**call.problem.arguments, "x2": TensorSpec((2, 128, 16), "int32")}
    problem = Problem(call.problem.platform, specs, call.attributes)
    with pytest.raises(ValueError, match="x2: expected k = 256 as x1 has, got k = 128"):
        golden(Operands(problem, {**call.arrays, "x2": call.arrays["x2"][:, :128]}))
