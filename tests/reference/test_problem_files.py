"""What a problem file may not say: a wrong kind of object is a usage error, never taken for a missing one."""

from __future__ import annotations

import pytest

from reference.problem import ProblemError, read_problems


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
