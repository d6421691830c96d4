"""Routing metadata for the kernels: rows per expert and their starts, and checks that no device makes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


def group_counts(group_list: Int64s, group_list_type: int) -> Int64s:
    """Rows per expert. ``group_list_type`` 0: the entries are running totals; 1: they are the counts."""
    values = np.asarray(group_list, dtype=np.int64).reshape(-1)
    if group_list_type == 1:
        return values
    if group_list_type != 0:
        raise ValueError(f"group_list_type: expected 0 (running totals) or 1 (counts), got {group_list_type}")
    return np.diff(values, prepend=np.int64(0))


def check_counts(counts: Int64s, m: int, group_list_type: int) -> None:
    """Raise ValueError for a negative count or a total beyond the ``m`` rows of x1."""
    negative = np.flatnonzero(counts < 0)
    if negative.size:
        expert = int(negative[0])
        what = "decreases" if group_list_type == 0 else "is negative"
        raise ValueError(
            f"group_list: {what} at index {expert} ({int(counts[expert])} rows for that expert); "
            "expected counts of at least 0"
        )
    total = int(counts.sum())
    if total > m:
        raise ValueError(
            f"group_list: {total} rows in total, but x1 has m = {m}; "
            "are these running totals? Then pass group_list_type 0"
            if group_list_type == 1
            else f"group_list: the last total is {total}, but x1 has m = {m}"
        )


def check_row_index(row_index: Int64s, total: int, batch: int) -> None:
    """Raise ValueError when one of the first ``total`` entries lies outside 0 .. batch-1. Later ones are
    ignored.
    """
    used = np.asarray(row_index, dtype=np.int64).reshape(-1)[:total]
    bad = np.flatnonzero((used < 0) | (used >= batch))
    if bad.size:
        places = ", ".join(f"[{int(i)}] = {int(used[i])}" for i in bad[:5])
        raise ValueError(
            f"row_index: {bad.size} of the {total} used entries lie outside 0..{batch - 1}: {places}; "
            "there is no marker for dropped rows, remove them and lower the counts"
        )


def read_groups(
    group_list: Int64s, group_list_type: int, row_index: Int64s, m: int, batch: int
) -> tuple[Int32s, Int32s]:
    """Checked (counts, starts), int32 as the kernels read them."""
    counts = group_counts(group_list, group_list_type)
    check_counts(counts, m, group_list_type)
    check_row_index(row_index, int(counts.sum()), batch)
    starts = np.cumsum(counts) - counts
    return counts.astype(np.int32), starts.astype(np.int32)
