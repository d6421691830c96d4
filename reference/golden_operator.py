"""The golden: what the operator computes, in NumPy, expert by expert.

    y_i   = x_i · W_g                          (the path's own dequantisation, plus bias)
    out   = 0;  out[off : off+s] = shared_input · shared_input_weight
    out[row_index[i]] += logit[i] · y_i        for the first sum(group_list) rows

Sources: the vendor's kernels (W4A8: grouped_matmul_finalize_routing pre-process and MSD kernels;
MX: finalize-routing block prologue and epilogue) and the OCP MX specification.  The golden shares no
code with any backend.  It decodes one expert's weights at a time, in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reference.contribution import Contribution
from reference.exactness import sums_are_exact
from reference.golden_mx import MxExpert
from reference.golden_operands import check_operands
from reference.golden_threads import contributions
from reference.golden_w4a8 import W4a8Expert
from reference.operands import Operands
from reference.problem import Problem

Precision = Literal["float64", "float32"]
Model = Literal["exact", "fp16_partials"]


@dataclass(frozen=True)
class Golden:
    """The golden's result.

    ``out`` (batch, n) in the precision asked for.  With ``magnitudes=True`` also, for the comparator:
    ``magnitude`` (batch, n) float32, the sum of the absolute values of all terms of each element;
    ``terms`` (batch,) their number; ``rounding`` (batch, n) float32 or None, the error that the device's
    own half-precision partials may add (W4A8 only); ``exact``, whether the operands leave no room for
    rounding: every sum of terms, in any order, is a float32 number (reference.exactness).  ``counts``
    (e,) rows per expert and ``rows`` the output row of each processed row say what went where.
    """

    out: NDArray[Any]
    magnitude: NDArray[np.float32] | None = None
    terms: NDArray[np.int64] | None = None
    rounding: NDArray[np.float32] | None = None
    exact: bool = False
    counts: NDArray[np.int64] | None = None
    rows: NDArray[np.int64] | None = None


def golden(
    operands: Operands,
    precision: Precision = "float64",
    *,
    magnitudes: bool = False,
    model: Model = "exact",
    progress: Callable[[int, int], None] | None = None,
) -> Golden:
    """Compute the operator's result.

    ``precision`` is the type of products and sums.  ``model="fp16_partials"`` rounds the two partial
    products of W4A8 to half precision as the A2/A3 device does; ``"exact"`` leaves that out.  ``progress``
    is called with (experts done, experts with rows) after each expert.
    Raises ``ValueError`` for an argument that is missing or does not fit the others, and for row indices,
    group totals or shared rows out of range: they never wrap.
    """
    if precision not in ("float64", "float32"):
        raise ValueError(f"precision: expected 'float64' or 'float32', got {precision!r}")
    if model not in ("exact", "fp16_partials"):
        raise ValueError(f"model: expected 'exact' or 'fp16_partials', got {model!r}")
    check_operands(operands)
    counts, rows = routing_of(operands)
    result = replace(initial(operands, np.dtype(precision), magnitudes), counts=counts, rows=rows)
    starts = np.concatenate([[0], np.cumsum(counts)])
    parts = {int(g): slice(int(starts[g]), int(starts[g + 1])) for g in np.flatnonzero(counts)}

    def make() -> MxExpert | W4a8Expert:
        return make_expert(operands, np.dtype(precision), magnitudes, model)

    for done, (part, contribution) in enumerate(contributions(make, parts), start=1):
        with np.errstate(over="ignore", invalid="ignore"):
            scatter_add(result, rows[part], contribution)
        if progress is not None:
            progress(done, len(parts))
    if result.magnitude is None:
        return result
    return replace(result, exact=sums_are_exact(operands, counts, result.magnitude))


def make_expert(
    operands: Operands, dtype: np.dtype[Any], magnitudes: bool, model: Model = "exact"
) -> MxExpert | W4a8Expert:
    """The path's own computation of one expert's rows."""
    if operands.problem.platform_row.family == "a2a3":
        return W4a8Expert(operands, dtype, magnitudes, fp16_partials=model == "fp16_partials")
    return MxExpert(operands, dtype, magnitudes)


def routing_of(operands: Operands) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows per expert, and the output rows of all processed rows; checked, so that nothing wraps."""
    problem = operands.problem
    entries = np.asarray(operands["group_list"], np.int64)
    kind = problem.attributes.group_list_type
    if kind not in (0, 1):
        raise ValueError(f"group_list_type: expected 0 (running totals) or 1 (counts), got {kind}")
    counts = entries if kind == 1 else np.diff(entries, prepend=np.int64(0))
    if (counts < 0).any():
        group = int(np.flatnonzero(counts < 0)[0])
        raise ValueError(f"group_list: expert {group} gets {counts[group]} rows; expected none negative")
    total = sum(counts.tolist())
    if total > problem.m:
        raise ValueError(f"group_list: {total} rows in all, x1 has only {problem.m}")
    rows = np.asarray(operands["row_index"], np.int64)[:total]
    wrong = np.flatnonzero((rows < 0) | (rows >= problem.batch))
    if wrong.size:
        first = int(wrong[0])
        raise ValueError(
            f"row_index: row {first} points at {rows[first]}; "
            f"expected 0 ≤ value < {problem.batch} (rows of out)"
        )
    return counts, rows


def initial(operands: Operands, dtype: np.dtype[Any], magnitudes: bool) -> Golden:
    """Every row before the scatter-add: zero, or shared_input · shared_input_weight."""
    problem: Problem = operands.problem
    shape = (problem.batch, problem.n)
    out = np.zeros(shape, dtype)
    shared = operands["shared_input"]
    start = problem.attributes.shared_input_offset
    part = slice(start, start + (0 if shared is None else len(shared)))
    if shared is not None:
        if start < 0 or part.stop > problem.batch:
            raise ValueError(
                f"shared_input_offset: expected {len(shared)} rows of shared_input within "
                f"{problem.batch} rows of out, got offset {start}"
            )
        with np.errstate(invalid="ignore", over="ignore"):
            out[part] = shared.astype(dtype) * dtype.type(np.float32(problem.attributes.shared_input_weight))
    if not magnitudes:
        return Golden(out)
    magnitude = np.zeros(shape, np.float32)
    magnitude[part] = np.abs(out[part])
    terms = np.zeros(problem.batch, np.int64)
    terms[part] = 1
    w4a8 = problem.platform_row.family == "a2a3"
    return Golden(out, magnitude, terms, np.zeros(shape, np.float32) if w4a8 else None)


def scatter_add(result: Golden, rows: NDArray[np.int64], part: Contribution) -> None:
    """``result[rows[i]] += part[i]``; equal rows are added one after the other, in row order."""
    for chosen in occurrences(rows):
        target = rows[chosen]
        result.out[target] += part.value[chosen]
        if result.magnitude is not None and part.magnitude is not None and result.terms is not None:
            result.magnitude[target] += part.magnitude[chosen]
            result.terms[target] += part.terms
        if result.rounding is not None and part.rounding is not None:
            result.rounding[target] += part.rounding[chosen]


def occurrences(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Positions of ``rows`` split so that each part hits every row at most once; first hits first."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if rows.size else np.zeros(0, bool)
    begin = np.maximum.accumulate(np.where(first, np.arange(rows.size), 0))
    rank = np.empty(rows.size, np.int64)
    rank[order] = np.arange(rows.size) - begin
    return [np.flatnonzero(rank == hit) for hit in range(int(rank.max()) + 1)] if rows.size else []
