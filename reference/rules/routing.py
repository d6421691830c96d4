"""Rules that read host values of group_list and row_index: lists of int, or arrays.

Nothing on the device checks them.  Lists take the built-in functions, arrays NumPy, which is imported only
then.  Processed rows are the first total rows of x1; rows behind them are never read.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from reference.problem import ProblemError
from reference.rules.build import row
from reference.rules.call import Call
from reference.rules.model import EVERYWHERE, Findings, Rule, one

_SHOWN = 5


class Routing:
    """Host values of one call: the list, its total of processed rows, and whether it can be trusted."""

    __slots__ = ("decreasing", "entries", "facts", "indices", "lowest", "total")

    def __init__(self, call: Call, values: Any) -> None:
        self.entries = _read_list(call, values, "group_list")
        self.indices = _read_indices(call, values)
        self.facts: dict[str, Any] = {}  # what rules on arrays found out for one another
        self.total: int | None = None
        self.lowest = 0
        self.decreasing = False
        entries = self.entries
        if not entries or call.attributes.group_list_type not in (0, 1):
            self.total = 0 if entries is not None and not entries else None
            return
        self.lowest = min(entries)
        if call.attributes.group_list_type == 1:
            self.total = sum(entries)
        else:
            self.total = entries[-1]
            self.decreasing = sorted(entries) != entries

    @property
    def sound(self) -> bool:
        """Whether the total says how many rows are processed."""
        return self.total is not None and self.lowest >= 0 and not self.decreasing

    def counts(self, call: Call) -> list[int]:
        """Rows per expert, from counts or totals."""
        entries = self.entries or []
        if call.attributes.group_list_type == 1:
            return list(entries)
        return [after - before for before, after in pairwise([0, *entries])]


def _read_list(call: Call, values: Any, name: str) -> list[int] | None:
    value = values.get(name)
    spec = getattr(call, name)
    if value is None or spec is None or len(spec.shape) != 1 or spec.dtype != "int64":
        return None
    entries = _to_list(value, name)
    if len(entries) != spec.shape[0]:
        raise ProblemError(f"values {name}: {len(entries)} given, the argument is {spec.shape[0]} long")
    return entries


def _to_list(value: Any, name: str) -> list[int]:
    """``value`` as a list of int; a number of another kind is refused, not rounded."""
    entries = value.reshape(-1).tolist() if hasattr(value, "tolist") else value
    if type(entries) is list and list(map(type, entries)).count(int) == len(entries):  # built-in passes only
        return entries
    try:
        return [operator.index(item) for item in entries]
    except TypeError:
        raise ProblemError(f"values {name}: expected a list of int, got {value!r}") from None


def _read_indices(call: Call, values: Any) -> Any:
    """row_index as it came: a list, or an array, which stays one."""
    value, spec = values.get("row_index"), call.row_index
    if value is None or spec is None or len(spec.shape) != 1 or spec.dtype != "int64":
        return None
    if len(value) != spec.shape[0]:
        raise ProblemError(f"values row_index: {len(value)} given, the argument is {spec.shape[0]} long")
    if getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u"):
        return value
    return _to_list(value, "row_index")


def _routing(call: Call) -> Routing:
    return call.routing  # type: ignore[no-any-return]


def check_negative(call: Call) -> Findings:
    routing = _routing(call)
    if routing.lowest >= 0 or routing.entries is None:
        return None
    places = [f"{value} at {index}" for index, value in enumerate(routing.entries) if value < 0]
    hint = "the sums go wrong for every expert behind it and rows outside x1 are touched: use 0 for no rows"
    return one("group_list", "entries of 0 or more", _few(places), hint)


def check_decreasing(call: Call) -> Findings:
    routing = _routing(call)
    if not routing.decreasing or routing.entries is None:
        return None
    steps = enumerate(pairwise(routing.entries), start=1)
    places = [f"{after} after {before} at {index}" for index, (before, after) in steps if after < before]
    sums_to_m = sum(routing.entries) == call.m
    guess = "the entries sum to m: they look like counts," if sums_to_m else "are these counts already?"
    hint = f"a smaller total wraps to a huge row count; {guess} counts are group_list_type 1"
    return one("group_list", "totals that never decrease (group_list_type 0)", _few(places), hint)


def check_total(call: Call) -> Findings:
    routing = _routing(call)
    total, m = routing.total, call.m
    if total is None or m is None or total <= m:
        return None
    hint = "rows outside x1 would be read, on Atlas A2/A3 also written: "
    if call.attributes.group_list_type == 1:
        hint += (
            "pass the rows per expert of this x1; to_count() makes them of a cumsum, whose first entry stays"
        )
    else:
        hint += "pass running totals that end at m or below; to_cumsum() makes them of rows per expert"
    entries = routing.entries or []
    if call.attributes.group_list_type == 1 and entries[-1] == m and sorted(entries) == entries:
        hint = "they never decrease and end at m: they look like a cumsum, which is group_list_type 0"
    what = "sum" if call.attributes.group_list_type == 1 else "last total"
    return one("group_list", f"{what} at most m = {m}", f"{what} {total}", hint)


def check_unassigned(call: Call) -> Findings:
    routing = _routing(call)
    if not routing.sound or call.m is None or not 0 < (routing.total or 0) < call.m:
        return None
    left = call.m - (routing.total or 0)
    hint = "legal for a static buffer: the rows at the end of x1 are never read"
    return one("group_list", f"all {call.m} rows of x1 assigned", f"{left} of them unassigned", hint)


def check_looks_like_counts(call: Call) -> Findings:
    routing = _routing(call)
    if call.attributes.group_list_type != 0 or not routing.entries or len(routing.entries) < 2 or not call.m:
        return None
    if routing.total == call.m or sum(routing.entries) != call.m:
        return None
    hint = "sums to m: looks like counts; counts are group_list_type 1"
    return one("group_list", "running totals (group_list_type 0)", f"entries that sum to m = {call.m}", hint)


def check_looks_like_totals(call: Call) -> Findings:
    routing = _routing(call)
    entries = routing.entries
    if (
        call.attributes.group_list_type != 1
        or entries is None
        or len(entries) < 4
        or entries[0] == entries[-1]
    ):
        return None
    if sorted(entries) != entries or call.m is None or sum(entries) > call.m:
        return None
    hint = "non-decreasing entries look like running totals (cumsum), which are group_list_type 0"
    return one("group_list", "counts (group_list_type 1)", f"{entries[0]} rising to {entries[-1]}", hint)


def check_all_zero(call: Call) -> Findings:
    routing = _routing(call)
    if not routing.sound or routing.total != 0 or not routing.entries or any(routing.entries):
        return None
    return one(
        "group_list", "a row for some expert", "0 for all", "no row is computed: out is its initial value"
    )


def check_indices(call: Call) -> Findings:
    """Out rows of the processed rows; without group_list values every row counts as processed."""
    routing = _routing(call)
    indices, batch = routing.indices, call.batch
    if indices is None or not batch or len(indices) == 0:
        return None
    processed = len(indices)
    if routing.sound and routing.total is not None:
        processed = min(processed, routing.total)
    if processed == 0:
        return None
    rows = indices if processed == len(indices) else indices[:processed]
    if type(rows) is list:
        if _within(rows, batch):
            return None
        wrong = [(position, value) for position, value in enumerate(rows) if not 0 <= value < batch]
    else:
        wrong = _wrong_in_array(rows, batch)
        if not wrong:
            return None
    places = [f"{value} at {position}" for position, value in wrong]
    got = f"{_few(places)} ({len(wrong)} of {processed} processed rows)"
    return one("row_index", f"0..{batch - 1}", got, _hint_indices(wrong, batch, routing))


def _within(rows: list[int], batch: int) -> bool:
    """Whether all rows are in 0..batch-1: one set where rows repeat much, else two passes."""
    if 2 * batch <= len(rows):
        return frozenset(range(batch)).issuperset(rows)
    return min(rows) >= 0 and max(rows) < batch


def _wrong_in_array(rows: Any, batch: int) -> list[tuple[int, int]]:
    import numpy as np

    array = np.asarray(rows)
    positions = np.flatnonzero((array < 0) | (array >= batch))
    return [(int(position), int(array[position])) for position in positions]


def _hint_indices(wrong: Sequence[tuple[int, int]], batch: int, routing: Routing) -> str:
    hint = "the kernels write outside out"
    if any(value == -1 for _, value in wrong):
        hint += "; -1 is no drop marker: remove dropped rows and lower their expert's count"
    elif all(value == batch for _, value in wrong):
        hint += "; indices count from 0"
    if routing.total is None:
        hint += "; group_list's values are not given, so every row counts as processed"
    return hint


def _few(places: Sequence[str]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more


_hazard = partial(row, level="hazard", status=0, stage="values")
_warning = partial(row, level="warning", status=0, stage="values")
_PAGE_950 = "documentation page, groupListOptional (Ascend 950)"

RULES: tuple[Rule, ...] = (
    _hazard(
        "group-list-negative",
        "group_list entries are 0 or more",
        "values",
        check_negative,
        f"kernels check no values; {_PAGE_950}",
        EVERYWHERE,
        90,
    ),
    _hazard(
        "group-list-decreasing",
        "running totals never decrease",
        "values",
        check_decreasing,
        f"kernels check no values; {_PAGE_950}",
        EVERYWHERE,
        90,
    ),
    _hazard(
        "group-list-total",
        "group_list assigns at most m rows",
        "values",
        check_total,
        f"kernels check no values; {_PAGE_950}",
        EVERYWHERE,
        90,
    ),
    _hazard(
        "row-index-range",
        "row_index of processed rows is within 0..batch-1",
        "values",
        check_indices,
        "kernels check no values; documentation page, rowIndexOptional",
        EVERYWHERE,
        91,
    ),
    _warning(
        "group-list-looks-like-counts",
        "running totals do not sum to m",
        "values",
        check_looks_like_counts,
        "a guess from the values",
        EVERYWHERE,
        92,
    ),
    _warning(
        "group-list-looks-like-totals",
        "counts do not rise like running totals",
        "values",
        check_looks_like_totals,
        "a guess from the values",
        EVERYWHERE,
        92,
    ),
    _warning(
        "unassigned-rows",
        "group_list assigns every row of x1",
        "values",
        check_unassigned,
        "kernels process the first sum(group_list) rows",
        EVERYWHERE,
        93,
    ),
    _warning(
        "group-list-zero",
        "group_list assigns a row",
        "values",
        check_all_zero,
        "kernels process the first sum(group_list) rows",
        EVERYWHERE,
        93,
    ),
)
