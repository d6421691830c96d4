"""Where two results differ: by output row (token), column, expert, and in units of the allowed difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.comparator import Position, compare, json_number
from reference.golden_operator import Golden
from reference.judging import HUGE, Criterion, Judge, Judgement

#: Upper limits of the histogram's bins, in units of the allowed difference; the last one has none.
HISTOGRAM_LIMITS = (0.0, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0, float("inf"))
#: Most rows and columns of the error map.
_MAP_ROWS, _MAP_COLUMNS = 40, 64
_COLUMN_BLOCK = 64


@dataclass(frozen=True)
class ExpertShare:
    """One expert's part: its ``rows`` of x1, the ``tokens`` (rows of out) that they were added into, how
    many of these differ, in how many elements, and the worst of them."""

    expert: int
    rows: int
    tokens: int
    tokens_differ: int
    mismatches: int
    max_ratio: float

    def to_json(self) -> dict[str, Any]:
        """The entry of ``experts``."""
        return {key: json_number(value) for key, value in vars(self).items()}


@dataclass(frozen=True)
class Location:
    """Where results differ.

    ``rows`` and ``columns`` count mismatches by row and column of out, ``row_ratio`` holds the worst of
    each row.  ``heat`` (at most 40 × 64) is the worst ratio of each block of ``heat_block`` rows × columns.
    ``histogram[i]`` counts elements up to ``HISTOGRAM_LIMITS[i]``, the last entry those beyond all limits or
    not finite.  ``first_expert`` is the first one all of whose tokens differ, else the first with any.
    """

    count: int
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    row_ratio: NDArray[np.float64]
    heat: NDArray[np.float64]
    heat_block: tuple[int, int]
    histogram: NDArray[np.int64]
    experts: tuple[ExpertShare, ...]
    first_expert: int | None
    worst: tuple[Position, ...]

    @property
    def mismatches(self) -> int:
        """Elements that differ by more than allowed."""
        return int(self.rows.sum())

    def column_blocks(self, width: int = _COLUMN_BLOCK) -> list[tuple[int, int, int]]:
        """First column, last column and mismatches of each block of columns that has any."""
        starts = np.arange(0, len(self.columns), width)
        sums = np.add.reduceat(self.columns, starts) if len(starts) else np.zeros(0, np.int64)
        last = len(self.columns) - 1
        return [
            (int(s), min(int(s) + width - 1, last), int(c)) for s, c in zip(starts, sums, strict=True) if c
        ]

    def describe(self) -> list[str]:
        """A few sentences on where the mismatches are."""
        if not self.mismatches:
            return ["no element differs by more than allowed"]
        share = self.mismatches / self.count
        lines = [f"{self.mismatches} of {self.count} elements differ ({share:.3%})"]
        lines.append(_extent("rows (tokens)", self.rows))
        lines.append(_extent("columns", self.columns))
        lines.append(self._describe_experts())
        return lines

    def _describe_experts(self) -> str:
        if self.first_expert is None:
            return "experts: none was added into the rows that differ"
        busy = sum(1 for share in self.experts if share.tokens)
        touched = sum(1 for share in self.experts if share.mismatches)
        whole = [
            share.expert for share in self.experts if share.tokens and share.tokens_differ == share.tokens
        ]
        text = f"experts: {touched} of {busy} touch rows that differ; first to differ: {self.first_expert}"
        return f"{text}; every row of expert {spans(whole)} differs" if whole else text

    def to_json(self) -> dict[str, Any]:
        """Counts and positions as JSON; the error map and per-row arrays are the report's."""
        wrong_rows = np.flatnonzero(self.rows)
        order = wrong_rows[np.argsort(-self.rows[wrong_rows], kind="stable")][:20].tolist()
        return {
            "mismatches": self.mismatches,
            "rows_differ": len(wrong_rows),
            "rows": [{"row": r, "mismatches": int(self.rows[r])} for r in order],
            "columns_differ": int(np.count_nonzero(self.columns)),
            "column_blocks": [
                {"first": f, "last": last, "mismatches": c} for f, last, c in self.column_blocks()
            ],
            "experts": [share.to_json() for share in self.experts],
            "first_expert": self.first_expert,
            "histogram": [
                {"up_to": json_number(limit), "count": int(n)}
                for limit, n in zip(HISTOGRAM_LIMITS, self.histogram, strict=True)
            ],
            "worst": [position.to_json() for position in self.worst],
        }


def locate(
    a: NDArray[Any],
    b: NDArray[Any],
    golden: Golden,
    *,
    sides: int | None = None,
    criterion: Criterion = "bound",
    rtol: float = 1e-3,
    atol: float = 1e-3,
) -> Location:
    """Where ``a`` and ``b`` (batch, n) differ by more than allowed; arguments as for ``compare``."""
    worst = compare(a, b, golden, sides=sides, criterion=criterion, rtol=rtol, atol=atol).worst
    if sides is None:
        sides = 1 if b is golden.out and b.dtype == np.float64 else 2
    judge = Judge(golden, sides, criterion, rtol, atol)
    total = _Map(*golden.out.shape)
    for part in judge.judge(a, b):
        total.add(part)
    for ratios in (total.row_ratio, total.heat):
        ratios[ratios > HUGE] = np.inf
    shares = _expert_shares(golden, total.rows, total.row_ratio)
    return Location(
        count=golden.out.size,
        rows=total.rows,
        columns=total.columns,
        row_ratio=total.row_ratio,
        heat=total.heat,
        heat_block=total.block,
        histogram=total.histogram,
        experts=shares,
        first_expert=_first_expert(shares),
        worst=worst,
    )


class _Map:
    """Collects counts by row, column and block."""

    def __init__(self, batch: int, n: int) -> None:
        self.block = max(1, -(-batch // _MAP_ROWS)), max(1, -(-n // _MAP_COLUMNS))
        self.rows = np.zeros(batch, np.int64)
        self.columns = np.zeros(n, np.int64)
        self.row_ratio = np.zeros(batch)
        self.heat = np.zeros((-(-batch // self.block[0]), -(-n // self.block[1])))
        self.histogram = np.zeros(len(HISTOGRAM_LIMITS), np.int64)
        self._starts = np.arange(0, n, self.block[1])

    def add(self, part: Judgement) -> None:
        """Count some rows."""
        if not part.ratio.size:
            return
        rows = slice(part.first, part.first + len(part.ratio))
        wrong = part.ratio > 1.0
        self.rows[rows] = wrong.sum(axis=1)
        self.columns += wrong.sum(axis=0)
        self.row_ratio[rows] = part.ratio.max(axis=1)
        blocks = np.maximum.reduceat(part.ratio, self._starts, axis=1)
        np.maximum.at(self.heat, np.arange(rows.start, rows.stop) // self.block[0], blocks)
        bins = np.searchsorted(HISTOGRAM_LIMITS, part.ratio.reshape(-1), side="left")
        self.histogram += np.bincount(bins, minlength=len(HISTOGRAM_LIMITS))


def _expert_shares(
    golden: Golden, rows: NDArray[np.int64], row_ratio: NDArray[np.float64]
) -> tuple[ExpertShare, ...]:
    if golden.rows is None or golden.counts is None:
        return ()
    parts = np.split(golden.rows, np.cumsum(golden.counts)[:-1]) if len(golden.counts) else []
    shares = []
    for expert, targets in enumerate(parts):
        tokens = np.unique(targets)
        wrong = rows[tokens]
        worst = float(row_ratio[tokens].max(initial=0.0))
        differ = int(np.count_nonzero(wrong))
        shares.append(ExpertShare(expert, len(targets), len(tokens), differ, int(wrong.sum()), worst))
    return tuple(shares)


def _first_expert(shares: tuple[ExpertShare, ...]) -> int | None:
    touched = [share for share in shares if share.mismatches]
    whole = [share for share in touched if share.tokens_differ == share.tokens]
    return (whole or touched)[0].expert if touched else None


def _extent(what: str, counts: NDArray[np.int64]) -> str:
    wrong = np.flatnonzero(counts)
    return f"{what}: {len(wrong)} of {len(counts)} differ: {spans(wrong.tolist())}"


def spans(numbers: list[int], most: int = 6) -> str:
    """Sorted numbers as ranges, as in ``0-3, 7, 9-12``."""
    if not numbers:
        return "none"
    values = np.asarray(numbers)
    breaks = np.flatnonzero(np.diff(values) > 1)
    starts = values[np.concatenate([[0], breaks + 1])]
    stops = values[np.concatenate([breaks, [len(values) - 1]])]
    parts = [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts[:most], stops[:most], strict=True)]
    more = len(starts) - most
    return ", ".join(parts) + (f" and {more} more ranges" if more > 0 else "")
