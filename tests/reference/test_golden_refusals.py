"""What the golden refuses to compute, as it would look like a result: nothing wraps, nothing is guessed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from reference import Attributes, Operands, Problem, golden, make_case


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
