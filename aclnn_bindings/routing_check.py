"""A quick look at routing values: whether they are plainly fine, so that the validator need not be asked.

It may only err on the careful side: what is fine here is fine for the validator, whose rules decide
everything else and write the messages.
"""

from __future__ import annotations

from typing import Any

#: Below this many values a Python list is faster than NumPy's reductions.
_SHORT = 64


def bounds(values: Any) -> tuple[int, int]:
    """Smallest and largest value of a one-dimensional integer array that is not empty."""
    if len(values) <= _SHORT:
        entries = values.tolist()
        return min(entries), max(entries)
    return int(values.min()), int(values.max())


def is_plain(group_list: Any, row_index: Any, m: int, batch: int, cumulative: bool) -> bool:
    """Whether the groups are within the m rows and every row goes to an existing row of ``out``.

    Rows behind the last group are looked at too, although the operator ignores them.
    """
    if not len(group_list) or not len(row_index):
        return False
    lowest, highest = bounds(row_index)
    if lowest < 0 or highest >= batch:
        return False
    entries = group_list.tolist()
    if min(entries) < 0:
        return False
    if cumulative:
        return bool(entries[-1] <= m and sorted(entries) == entries)
    return bool(sum(entries) <= m)
