# ruff: noqa: E501 (messages are tested by their whole text)
"""Host values of group_list and row_index: lists from a problem file, arrays from operands, same words."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reference.problem import ProblemError
from reference.rules import routing
from reference.validator import Report, validate

# (group_list_type, m, group_list, row_index, what is said); batch is 2, group_list as long as its own list
CASES: dict[str, tuple[int, int, list[int], list[int] | None, list[str]]] = {
    "all rows assigned": (1, 4, [2, 2], [0, 1, 1, 0], []),
    "totals": (0, 4, [2, 4], [0, 1, 1, 0], []),
    "experts without rows": (1, 4, [0, 4], [0, 0, 0, 0], []),
    "equal totals": (0, 4, [0, 0, 4, 4], None, []),
    "tail rows may hold anything": (
        1,
        4,
        [1, 1],
        [0, 1, 2**31, -7],
        [
            "warning: group_list values: expected all 4 rows of x1 assigned, got 2 of them unassigned; legal for a "
            "static buffer: the rows at the end of x1 are never read [unassigned-rows]"
        ],
    ),
    "cumsum passed as counts": (
        1,
        30,
        [10, 25, 30],
        None,
        [
            "hazard: group_list values: expected sum at most m = 30, got sum 65; they never decrease and end at m: they "
            "look like a cumsum, which is group_list_type 0 [group-list-total]"
        ],
    ),
    "counts from a wrong difference": (
        1,
        30,
        [15, 15, 5],
        None,
        [
            "hazard: group_list values: expected sum at most m = 30, got sum 35; rows outside x1 would be read, on Atlas "
            "A2/A3 also written: pass the rows per expert of this x1; to_count() makes them of a cumsum, whose first "
            "entry stays [group-list-total]"
        ],
    ),
    "counts passed as cumsum": (
        0,
        4,
        [2, 2],
        [0, 1, 1, 0],
        [
            "warning: group_list values: expected running totals (group_list_type 0), got entries that sum to m = 4; sums "
            "to m: looks like counts; counts are group_list_type 1 [group-list-looks-like-counts]",
            "warning: group_list values: expected all 4 rows of x1 assigned, got 2 of them unassigned; legal for a static "
            "buffer: the rows at the end of x1 are never read [unassigned-rows]",
        ],
    ),
    "rising counts": (
        1,
        64,
        [2, 5, 9, 20],
        None,
        [
            "warning: group_list values: expected counts (group_list_type 1), got 2 rising to 20; non-decreasing entries "
            "look like running totals (cumsum), which are group_list_type 0 [group-list-looks-like-totals]",
            "warning: group_list values: expected all 64 rows of x1 assigned, got 28 of them unassigned; legal for a "
            "static buffer: the rows at the end of x1 are never read [unassigned-rows]",
        ],
    ),
    "decreasing totals": (
        0,
        5,
        [3, 2],
        None,
        [
            "hazard: group_list values: expected totals that never decrease (group_list_type 0), got 2 after 3 at 1; a "
            "smaller total wraps to a huge row count; the entries sum to m: they look like counts, counts are "
            "group_list_type 1 [group-list-decreasing]",
            "warning: group_list values: expected running totals (group_list_type 0), got entries that sum to m = 5; sums "
            "to m: looks like counts; counts are group_list_type 1 [group-list-looks-like-counts]",
        ],
    ),
    "counts of a buffer with rows to spare, as totals": (
        0,
        8,
        [3, 2],
        None,
        [
            "hazard: group_list values: expected totals that never decrease (group_list_type 0), got 2 after 3 at 1; a "
            "smaller total wraps to a huge row count; are these counts already? counts are group_list_type 1 "
            "[group-list-decreasing]",
        ],
    ),
    "last total above m": (
        0,
        4,
        [2, 5],
        None,
        [
            "hazard: group_list values: expected last total at most m = 4, got last total 5; rows outside x1 would be "
            "read, on Atlas A2/A3 also written: pass running totals that end at m or below; to_cumsum() makes them of rows "
            "per expert [group-list-total]"
        ],
    ),
    "negative count": (
        1,
        4,
        [5, -1],
        None,
        [
            "hazard: group_list values: expected entries of 0 or more, got -1 at 1; the sums go wrong for every expert "
            "behind it and rows outside x1 are touched: use 0 for no rows [group-list-negative]"
        ],
    ),
    "no rows at all": (
        1,
        4,
        [0, 0],
        [9, 9, 9, 9],
        [
            "warning: group_list values: expected a row for some expert, got 0 for all; no row is computed: out is its "
            "initial value [group-list-zero]"
        ],
    ),
    "drop marker": (
        1,
        4,
        [2, 2],
        [0, -1, 1, 0],
        [
            "hazard: row_index values: expected 0..1, got -1 at 1 (1 of 4 processed rows); the kernels write outside out; "
            "-1 is no drop marker: remove dropped rows and lower their expert's count [row-index-range]"
        ],
    ),
    "index from 1": (
        1,
        4,
        [2, 2],
        [0, 2, 1, 2],
        [
            "hazard: row_index values: expected 0..1, got 2 at 1, 2 at 3 (2 of 4 processed rows); the kernels write "
            "outside out; indices count from 0 [row-index-range]"
        ],
    ),
    "many wrong indices are counted, the first are shown": (
        1,
        7,
        [7],
        [5, 5, 5, 5, 5, 5, 2**31],
        [
            "hazard: row_index values: expected 0..1, got 5 at 0, 5 at 1, 5 at 2, 5 at 3, 5 at 4 and 2 more (7 of 7 "
            "processed rows); the kernels write outside out [row-index-range]"
        ],
    ),
}


def judge(calls: SimpleNamespace, case: str, convert: Callable[[list[int]], Any]) -> Report:
    kind, m, groups, rows, _ = CASES[case]
    problem = calls.mx(m=m, e=len(groups), batch=2, shared=2, group_list_type=kind)
    values = {"group_list": convert(groups)}
    if rows is not None:
        values["row_index"] = convert(rows)
    return validate(problem, values)


def as_array(entries: list[int]) -> np.ndarray[Any, Any]:
    return np.array(entries, dtype=np.int64)


@pytest.mark.parametrize("convert", [list, as_array], ids=["lists", "arrays"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_values(
    calls: SimpleNamespace, case: str, convert: Callable[[list[int]], Any]
) -> None:
    report = judge(calls, case, convert)
    said = [f"{violation.level}: {violation.message}" for violation in report.violations]
    assert said == CASES[case][-1]


@pytest.mark.parametrize("case", CASES)
def test_values_never_change_the_status(calls: SimpleNamespace, case: str) -> None:
    assert judge(calls, case, list).status == 0


def test_without_group_list_values_every_row_counts_as_processed(calls: SimpleNamespace) -> None:
    report = validate(calls.mx(m=4, batch=2), {"row_index": [0, 1, 1, 2]})
    assert [violation.message for violation in report.violations] == [
        "row_index values: expected 0..1, got 2 at 3 (1 of 4 processed rows); the kernels write outside out; indices "
        "count from 0; group_list's values are not given, so every row counts as processed [row-index-range]"
    ]


def test_an_out_without_rows_is_fine_where_no_row_is_processed(calls: SimpleNamespace) -> None:
    problem = calls.mx(batch=0, shared=0)
    assert not validate(problem).ok
    assert validate(problem, {"group_list": [0, 0]}).ok


def test_the_same_holds_on_atlas_a2(calls: SimpleNamespace) -> None:
    report = validate(calls.w4a8(m=8, batch=4), {"group_list": [9, 0], "row_index": [0] * 8})
    assert [violation.rule for violation in report.violations] == ["group-list-total"]
    assert not report.ok


def test_values_of_a_null_or_refused_argument_are_not_judged(calls: SimpleNamespace) -> None:
    report = validate(
        calls.mx(group_list="int32", row_index=None), {"group_list": [99, 99], "row_index": [99]}
    )
    assert {violation.rule for violation in report.violations} == {"group_list-dtype", "required"}


@pytest.mark.parametrize("name", ["group_list", "row_index"])
@pytest.mark.parametrize("length", [2, 8])
def test_values_that_are_no_integers_are_refused_not_rounded(
    calls: SimpleNamespace, name: str, length: int
) -> None:
    problem = calls.mx(m=length, e=length, batch=2, shared=2)
    no_sum = [np.zeros(2), *[np.zeros(3)] * (length - 1)]
    for wrong in ([0.5] * length, np.full(length, 0.5), ["0"] * length, [Decimal("sNaN")] * length, no_sum):
        with pytest.raises(ProblemError, match=f"values {name}: expected a list of int, got"):
            validate(problem, {name: wrong})
    assert validate(problem, {name: [np.int64(0)] * length}).ok


def test_values_of_no_argument_and_a_problem_that_is_none_are_named(calls: SimpleNamespace) -> None:
    with pytest.raises(ProblemError, match="values: argument 'groups' is unknown; known: x1"):
        validate(calls.mx(), {"groups": [1]})
    with pytest.raises(TypeError, match="problem: expected a Problem, got dict"):
        validate({"platform": "ascend950"})  # type: ignore[arg-type]


def test_every_row_about_routing_is_met_above() -> None:
    said = "\n".join(line for case in CASES.values() for line in case[-1])
    assert [rule.id for rule in routing.RULES if f"[{rule.id}]" not in said] == []
