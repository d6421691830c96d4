"""What a problem file may not say: a wrong kind of object is a usage error, never taken for a missing one."""

from __future__ import annotations

import pytest

from reference.problem import ProblemError, TensorSpec
from reference.problem_files import read_problems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"platform": "ascend950", "attributes": []}', "attributes: expected an object, got list"),
        ('{"platform": "ascend950", "attributes": false}', "attributes: expected an object, got bool"),
        ('{"platform": "ascend950", "values": 0}', "values: expected an object, got int"),
        ('{"platform": "ascend950", "values": []}', "values: expected an object, got list"),
    ],
)
def test_empty_things_of_a_wrong_kind_are_refused(text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        read_problems(text)


def test_null_is_a_missing_key() -> None:
    text = '{"platform": "ascend950", "attributes": null, "values": null}'
    ((problem, values),), is_list = read_problems(text)
    assert (problem.attributes.group_list_type, values, is_list) == (1, {}, False)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("NaN", "not JSON: NaN is no JSON number"),
        ("-Infinity", "not JSON: -Infinity is no JSON number"),
        ("9" * 400, "shared_input_weight: expected a number that a float holds, got one beyond 1e308"),
        ("9" * 5000, "not JSON: "),
    ],
)
def test_numbers_that_json_or_a_float_does_not_hold_are_refused(weight: str, message: str) -> None:
    text = f'{{"platform": "ascend950", "attributes": {{"shared_input_weight": {weight}}}}}'
    with pytest.raises(ProblemError, match=message):
        read_problems(text)


def test_null_keys_of_an_argument_are_left_out() -> None:
    nulls = '"format": null, "offset": null, "strides": null, "storage_shape": null'
    text = f'{{"platform": "ascend950", "arguments": {{"x1": {{"shape": [4], "dtype": "int8", {nulls}}}}}}}'
    ((problem, _),), _ = read_problems(text)
    assert problem.arguments["x1"] == TensorSpec((4,), "int8")
