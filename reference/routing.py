"""Routing: from each token's top-k experts to what the operator takes, in one stable order.

Rows of x1 are sorted by expert; within one expert they keep the order of the tokens.  ``group_list``,
``row_index``, ``logit`` and the gather order belong together: build them here and never sort one alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.checked import integers
from reference.operands import host_array

COUNT, CUMSUM = 1, 0  # the operator's group_list_type


@dataclass(frozen=True, eq=False)
class RoutedRows:
    """Rows of x1 in the operator's order.

    ``counts`` (e,) int64 rows per expert; ``row_index`` (m,) int64, the token (row of out) of each row;
    ``logit`` (m,) float32, its routing weight; ``gather`` (m,) int64, the position of each row in the
    flattened top-k (token · topk + slot).  The activations are ``hidden[row_index]`` for one row per token,
    or ``flat[gather]`` for one row per token and slot.  Rows past ``sum(counts)`` are unassigned: the
    operator never reads them.
    """

    counts: NDArray[np.int64]
    row_index: NDArray[np.int64]
    logit: NDArray[np.float32]
    gather: NDArray[np.int64]
    group_list_type: int = COUNT

    def __post_init__(self) -> None:
        _check_type(self.group_list_type)
        lengths = {len(self.row_index), len(self.logit), len(self.gather)}
        if len(lengths) > 1:
            raise ValueError(
                f"row_index, logit and gather: expected one entry per row each, got {len(self.row_index)}, "
                f"{len(self.logit)} and {len(self.gather)}"
            )
        if self.total > self.m:
            raise ValueError(f"counts: {self.total} rows in all, row_index has only {self.m}")

    @property
    def m(self) -> int:
        """Rows, the unassigned ones included."""
        return len(self.row_index)

    @property
    def total(self) -> int:
        """Assigned rows."""
        return int(self.counts.sum())

    @property
    def group_list(self) -> NDArray[np.int64]:
        """The operator's argument: counts, or running totals where ``group_list_type`` is 0."""
        return self.counts if self.group_list_type == COUNT else np.cumsum(self.counts)

    def arguments(self) -> dict[str, Any]:
        """``group_list``, ``group_list_type``, ``row_index`` and ``logit`` by the operator's names."""
        return {
            "group_list": self.group_list,
            "group_list_type": self.group_list_type,
            "row_index": self.row_index,
            "logit": self.logit,
        }

    def local(self, ep_rank: int, ep_size: int) -> RoutedRows:
        """The rows of one expert-parallel rank; tokens keep their numbers.  See :func:`local_experts`."""
        experts = local_experts(len(self.counts), ep_rank, ep_size)
        start, stop = int(self.counts[: experts.start].sum()), int(self.counts[: experts.stop].sum())
        rows = slice(start, stop)
        return replace(
            self,
            counts=self.counts[experts],
            row_index=self.row_index[rows],
            logit=self.logit[rows],
            gather=self.gather[rows],
        )

    def padded(self, m: int) -> RoutedRows:
        """The same with unassigned rows (token 0, weight 0) up to ``m``: a buffer of constant size."""
        if m < self.m:
            raise ValueError(f"m: expected at least the {self.m} rows that there are, got {m}")
        tail = (0, m - self.m)
        return replace(
            self,
            row_index=np.pad(self.row_index, tail),
            logit=np.pad(self.logit, tail),
            gather=np.pad(self.gather, tail),
        )


def from_topk(
    ids: Any, weights: Any, num_experts: int, *, group_list_type: int = COUNT, drop: int | None = None
) -> RoutedRows:
    """Sort (token, slot) pairs by expert, stably.

    ``ids`` (batch, topk) integers, the experts of each token; ``weights`` (batch, topk), their routing
    weights.  With ``drop`` (usually -1) slots that hold this id get no row.  Raises ``ValueError`` with the
    position for any other id outside 0 … num_experts-1.
    """
    chosen, logit = integers("ids", ids), host_array("weights", weights)
    if chosen.ndim != 2:
        raise ValueError(f"ids shape: expected (batch, topk), got {chosen.shape}")
    if logit.shape != chosen.shape:
        raise ValueError(f"weights shape: expected {chosen.shape} like ids, got {logit.shape}")
    flat = chosen.reshape(-1)
    kept = np.flatnonzero(flat != drop) if drop is not None else np.arange(flat.size)
    wrong = np.flatnonzero((flat[kept] < 0) | (flat[kept] >= num_experts))
    if wrong.size:
        position = int(kept[wrong[0]])
        hint = "; pass drop=-1 if it marks a dropped slot" if flat[position] == -1 else ""
        token, slot = divmod(position, chosen.shape[1])
        legal = f"an expert in 0 … {num_experts - 1}"
        raise ValueError(f"ids[{token}, {slot}]: expected {legal}, got {flat[position]}{hint}")
    gather = kept[np.argsort(flat[kept], kind="stable")]
    counts = np.bincount(flat[kept], minlength=num_experts).astype(np.int64)
    row_index = gather // max(1, chosen.shape[1])
    sorted_logit = logit.reshape(-1)[gather].astype(np.float32)
    return RoutedRows(counts, row_index, sorted_logit, gather, group_list_type)


def to_count(cumsum: Any) -> NDArray[np.int64]:
    """Rows per expert from running totals: [10, 25, 30] is [10, 15, 5]; the first entry stays as it is."""
    totals = _list("cumsum", cumsum)
    counts = np.diff(totals, prepend=np.int64(0))
    if (counts < 0).any():
        index = int(np.argmax(counts < 0))
        before = int(totals[index - 1]) if index else 0
        raise ValueError(
            f"cumsum decreases at index {index}: {before} then {totals[index]}; are these counts already?"
        )
    return np.asarray(counts)


def to_cumsum(counts: Any) -> NDArray[np.int64]:
    """Running totals from rows per expert: [10, 15, 5] is [10, 25, 30]."""
    return np.cumsum(_not_negative(_list("counts", counts)))


def local_experts(num_experts: int, ep_rank: int, ep_size: int) -> slice:
    """The experts of one rank: contiguous, the first ``num_experts % ep_size`` ranks hold one more."""
    if ep_size < 1 or not 0 <= ep_rank < ep_size:
        raise ValueError(f"ep_rank: expected 0 … {ep_size - 1} for ep_size {ep_size}, got {ep_rank}")
    share, rest = divmod(num_experts, ep_size)
    start = ep_rank * share + min(ep_rank, rest)
    return slice(start, start + share + (ep_rank < rest))


def local_group_list(
    counts: Any, ep_rank: int, ep_size: int, *, group_list_type: int = COUNT
) -> NDArray[np.int64]:
    """One rank's part of the global rows per expert, as the operator takes it beside that rank's weights.

    ``counts`` (E,) are rows per expert; with redundant experts, per physical expert (see
    :func:`to_replicas`).  ``group_list_type`` is the form of the result.  The rank's weights are
    ``x2[local_experts(E, ep_rank, ep_size)]``.
    """
    _check_type(group_list_type)
    every = _not_negative(_list("counts", counts))
    local = every[local_experts(every.size, ep_rank, ep_size)]
    return local if group_list_type == COUNT else np.cumsum(local)


def to_replicas(ids: Any, placement: Any, drop: int = -1) -> NDArray[np.int64]:
    """Spread the slots of each expert evenly over its replicas.

    ``placement`` (physical,) says which expert each physical one is a copy of, rank after rank.  Slots of an
    expert go to its copies in turn, in token order.  The result has the shape of ``ids`` and holds physical
    experts: pass it to :func:`from_topk` with ``num_experts=len(placement)``; the weights are
    ``x2[placement]``.  Ids equal to ``drop`` stay.
    """
    chosen, copies = integers("ids", ids), _not_negative(_list("placement", placement), "placement")
    flat = chosen.reshape(-1)
    number = np.bincount(copies)
    kept = np.flatnonzero(flat != drop)
    missing = (flat[kept] < 0) | (flat[kept] >= number.size)
    missing[~missing] = number[flat[kept][~missing]] == 0
    if missing.any():
        raise ValueError(f"ids: expert {flat[kept][np.argmax(missing)]} has no copy in placement")
    by_expert = np.argsort(copies, kind="stable")  # the copies of one expert side by side
    first_copy = np.cumsum(number) - number
    order = kept[np.argsort(flat[kept], kind="stable")]
    experts = flat[order]
    rows = np.bincount(experts, minlength=number.size)
    turn = np.arange(order.size) - (np.cumsum(rows) - rows)[experts]
    physical = flat.copy()
    physical[order] = by_expert[first_copy[experts] + turn % number[experts]]
    return np.asarray(physical.reshape(chosen.shape))


def compact(rows: RoutedRows, drop: int = -1) -> RoutedRows:
    """Remove rows whose ``row_index`` is ``drop`` and lower the counts of their experts.

    The operator has no marker for a dropped token: it takes every value as a row of out.  Unassigned rows
    (past ``sum(counts)``) go too.  Take the same rows of x1 and pertoken_scale by ``kept_rows(rows, drop)``.
    """
    kept = kept_rows(rows, drop)
    expert = np.repeat(np.arange(rows.counts.size), rows.counts)
    counts = np.bincount(expert[kept], minlength=rows.counts.size).astype(np.int64)
    index, logit, gather = rows.row_index[kept], rows.logit[kept], rows.gather[kept]
    return replace(rows, counts=counts, row_index=index, logit=logit, gather=gather)


def kept_rows(rows: RoutedRows, drop: int = -1) -> NDArray[np.int64]:
    """Positions of the assigned rows that :func:`compact` keeps, ascending."""
    return np.flatnonzero(rows.row_index[: rows.total] != drop)


def from_arguments(
    group_list: Any, row_index: Any, logit: Any, *, group_list_type: int = COUNT, gather: Any = None
) -> RoutedRows:
    """Rows from the operator's own arguments, for example to :func:`compact` them."""
    _check_type(group_list_type)
    entries = _list("group_list", group_list)
    counts = _not_negative(entries, "group_list") if group_list_type == COUNT else to_count(entries)
    index = _list("row_index", row_index)
    order = np.arange(index.size) if gather is None else _list("gather", gather)
    return RoutedRows(counts, index, host_array("logit", logit).astype(np.float32), order, group_list_type)


def _list(name: str, values: Any) -> NDArray[np.int64]:
    array = integers(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} shape: expected one axis, got {array.shape}")
    return array


def _not_negative(counts: NDArray[np.int64], name: str = "counts") -> NDArray[np.int64]:
    if (counts < 0).any():
        index = int(np.argmax(counts < 0))
        raise ValueError(f"{name}[{index}]: expected none negative, got {counts[index]}")
    return counts


def _check_type(group_list_type: int) -> None:
    if group_list_type not in (COUNT, CUMSUM):
        raise ValueError(f"group_list_type: expected 1 (counts) or 0 (cumsum), got {group_list_type!r}")
