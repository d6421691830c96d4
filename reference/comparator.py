"""Compare a result with the golden, or two results with each other.

The verdict follows from the condition of each sum (:mod:`reference.judging`): small results of large terms
may be off by much, large results of few terms only by little, and no fixed tolerance can say that.  Two
results may each be off by the bound, so they may differ by twice of it.  No mismatch is allowed.  Beside
the verdict stand the numbers that others use: the share of matching elements, the count outside 1e-3, and
the errors of both sides against the golden with their ratio.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reference.comparison import Comparison, Errors, Position, json_number, quotient
from reference.golden_operator import Golden
from reference.judging import EQUAL, HUGE, C, Criterion, Judge, Judgement
from reference.sentinel import unwritten

__all__ = ["C", "Comparison", "Errors", "Position", "compare", "json_number"]

_WORST = 10
#: Source rows and experts listed for one element.
_LISTED = 16


def compare(
    a: ArrayLike,
    b: ArrayLike,
    golden: Golden,
    *,
    a_name: str = "a",
    b_name: str = "b",
    sides: int | None = None,
    criterion: Criterion = "bound",
    rtol: float = 1e-3,
    atol: float = 1e-3,
) -> Comparison:
    """Compare results ``a`` and ``b`` (batch, n) of the call that ``golden`` (with magnitudes) belongs to.

    Both are float32 or float64, in either byte order; lists of numbers do as well.
    ``sides`` says how many of the two carry float32 rounding: 1 against a float64 golden, else 2 (default:
    1 when ``b`` is the golden's own float64 output).  ``criterion="rtol"`` decides by |a-b| ≤ atol + rtol·|b|
    instead of the bound.
    """
    is_golden = b is golden.out
    if sides is None:
        sides = 1 if is_golden and golden.out.dtype == np.float64 else 2
    judge = Judge(golden, sides, criterion, rtol, atol)
    a, b = _native(a, a_name), _native(b, b_name)
    problem = shape_problem(a, golden, a_name) or shape_problem(b, golden, b_name)
    if problem:
        size, nothing = golden.out.size, float("nan")
        return Comparison(
            a_name,
            b_name,
            "FAIL",
            str(judge),
            size,
            size,
            nothing,
            nothing,
            float("inf"),
            0,
            0,
            reason=problem,
        )
    total = _Totals(golden, is_golden)
    for part in judge.judge(a, b):
        rows = slice(part.first, part.first + len(part.a))
        total.add(part, a[rows], b[rows])
    return total.comparison(a_name, b_name, str(judge))


def _native(values: Any, name: str) -> NDArray[Any]:
    """The values as an array of the machine's byte order; an array that is one stays itself."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"{name}: expected an array, got {type(values).__name__}: {error}") from None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def shape_problem(out: NDArray[Any], golden: Golden, name: str) -> str | None:
    """What is wrong with the shape or type of a result; None when nothing is."""
    if out.shape != golden.out.shape:
        return f"{name} shape: expected {golden.out.shape}, got {out.shape}"
    if out.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        return f"{name} dtype: expected float32, got {out.dtype.name}"
    return None


class _ErrorSums:
    """Collects one result's errors against the golden."""

    def __init__(self) -> None:
        self.largest = self.relative = self.square = self.golden_square = 0.0
        self.count = 0

    def add(self, error: NDArray[np.float64], size: NDArray[np.float64]) -> None:
        """Add absolute errors and the golden's absolute values, all finite."""
        relative = relative_errors(error, size)
        self.count += int(np.count_nonzero(size))
        self.largest = max(self.largest, float(relative.max(initial=0.0)))
        self.relative += float(relative.sum())
        self.square += _sum_of_squares(error)
        self.golden_square += _sum_of_squares(size)

    def errors(self) -> Errors:
        """The errors over everything added."""
        rms = quotient(self.square**0.5, self.golden_square**0.5) if self.square else 0.0
        return Errors(self.largest, self.relative / max(1, self.count), rms)


def relative_errors(error: NDArray[np.float64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    """``error / size``, 0 where the size is."""
    relative = error / size
    if size.size and size.min() == 0.0:
        relative[size == 0.0] = 0.0
    return relative


def _sum_of_squares(values: NDArray[np.float64]) -> float:
    flat = values.reshape(-1)
    return float(np.einsum("i,i->", flat, flat))  # one pass, and no BLAS threads for a short vector


class _Totals:
    """Collects counts, errors and the worst positions over chunks of rows."""

    def __init__(self, golden: Golden, b_is_golden: bool) -> None:
        self._golden = golden
        self.count = self.mismatches = self.outside = self.nonfinite = self.unwritten = 0
        # Elements that something is added into, and those of them that are not finite.
        self.filled = self.filled_nonfinite = 0
        self.nan, self.infinite = [0, 0], [0, 0]
        self.max_abs = self.max_ratio = self.max_relative = 0.0
        self.b_is_golden = b_is_golden
        self.sums = _ErrorSums(), _ErrorSums()
        self.worst: list[Position] = []

    def add(self, part: Judgement, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Count one chunk; ``a`` and ``b`` are its rows as they came."""
        self.count += part.ratio.size
        if not part.ratio.size:
            return
        self.filled += int(np.count_nonzero(self._filled_rows(part))) * part.ratio.shape[1]
        worst = float(part.ratio.max())
        self.max_ratio = max(self.max_ratio, worst)
        if worst > 1.0:
            self.mismatches += int(np.count_nonzero(part.ratio > 1.0))
        with np.errstate(all="ignore"):
            if part.finite:
                golden = self._golden.out[part.first : part.first + len(part.a)]
                self._add_errors(part.a, part.b, part.difference, golden)
            else:
                self._add_special(part, a, b)
        if worst > (self.worst[-1].ratio if len(self.worst) == _WORST else 0.0):
            self._remember(part)

    def _filled_rows(self, part: Judgement) -> NDArray[np.bool_]:
        """Which rows of a chunk have terms: the others are 0 whatever the operands hold."""
        terms = self._golden.terms
        rows = slice(part.first, part.first + len(part.a))
        return np.ones(len(part.a), np.bool_) if terms is None else np.asarray(terms[rows] > 0)

    def _add_errors(
        self,
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        difference: NDArray[np.float64],
        golden: NDArray[Any],
    ) -> None:
        size = np.abs(y)
        self.max_abs = max(self.max_abs, float(difference.max(initial=0.0)))
        if self.b_is_golden:
            self.sums[0].add(difference, size)
            self.max_relative = self.sums[0].largest
        else:
            largest = relative_errors(difference, size).max(initial=0.0)
            self.max_relative = max(self.max_relative, float(largest))
        size *= 1e-3
        size += 1e-3
        self.outside += int(np.count_nonzero(difference > size))
        if not self.b_is_golden:
            size = np.abs(golden)
            for sums, values in zip(self.sums, (x, y), strict=True):
                sums.add(np.abs(values - golden), size)

    def _add_special(self, part: Judgement, a: NDArray[Any], b: NDArray[Any]) -> None:
        """A chunk with NaN or infinities: errors over the finite elements, the others counted."""
        finite = np.isfinite(part.a) & np.isfinite(part.b)
        same = (part.a == part.b) | (np.isnan(part.a) & np.isnan(part.b))
        self.nonfinite += int(np.count_nonzero(~finite))
        self.filled_nonfinite += int(np.count_nonzero(~finite[self._filled_rows(part)]))
        for side, values in enumerate((part.a, part.b)):
            self.nan[side] += int(np.count_nonzero(np.isnan(values)))
            self.infinite[side] += int(np.count_nonzero(np.isinf(values)))
        self.outside += int(np.count_nonzero(~finite & ~same))
        self.unwritten += int(np.count_nonzero(unwritten(a) | unwritten(b)))
        golden = self._golden.out[part.first : part.first + len(part.a)]
        usable = finite & np.isfinite(golden)
        self.outside += int(
            np.count_nonzero((part.difference > 1e-3 + 1e-3 * np.abs(part.b)) & finite & ~usable)
        )
        self._add_errors(part.a[usable], part.b[usable], part.difference[usable], golden[usable])

    def _remember(self, part: Judgement) -> None:
        flat = part.ratio.reshape(-1)
        candidates = np.argpartition(flat, -_WORST)[-_WORST:] if flat.size > _WORST else np.arange(flat.size)
        for place in candidates[flat[candidates] > 0].tolist():
            row, column = divmod(place, part.ratio.shape[1])
            ratio, bound = float(flat[place]), float(part.bound[row, column])
            values = float(part.a[row, column]), float(part.b[row, column])
            allowed = bound if bound > EQUAL else 0.0
            self.worst.append(Position(part.first + row, column, *values, allowed, ratio))
        self.worst.sort(key=lambda entry: (-entry.ratio, entry.row, entry.column))
        del self.worst[_WORST:]

    def comparison(self, a: str, b: str, criterion: str) -> Comparison:
        """The verdict over all chunks."""
        reason = self._reason()
        errors = [sums.errors() for sums in self.sums]
        return Comparison(
            a=a,
            b=b,
            verdict="PASS" if reason is None else "FAIL",
            criterion=criterion,
            count=self.count,
            mismatches=self.mismatches,
            max_abs=self.max_abs,
            max_rel=self.max_relative,
            max_ratio=plain_ratio(self.max_ratio),
            outside_1e_3=self.outside,
            nonfinite=self.nonfinite,
            worst=tuple(with_sources(position, self._golden) for position in self.worst),
            reason=reason,
            match_ratio=1.0 - self.mismatches / self.count if self.count else 1.0,
            unwritten=self.unwritten,
            errors=(errors[0], None if self.b_is_golden else errors[1]),
            nan=(self.nan[0], self.nan[1]),
            infinite=(self.infinite[0], self.infinite[1]),
        )

    def _reason(self) -> str | None:
        if self.mismatches:
            text = f"{self.mismatches} of {self.count} elements differ by more than the criterion allows"
            if self.unwritten:
                text += f"; {self.unwritten} were never written, or added to without being initialised"
            return text
        if self.count and self.nonfinite == self.count:
            return "every element is NaN or infinite: the comparison has no content"
        if self.filled and self.filled_nonfinite == self.filled:
            return (
                f"every element with terms ({self.filled} of {self.count}) is NaN or infinite: "
                "the comparison has no content"
            )
        return None


def with_sources(position: Position, golden: Golden) -> Position:
    """``position`` with the rows of x1 and the experts that were added into its row of out."""
    if golden.rows is None or golden.counts is None:
        return replace(position, ratio=plain_ratio(position.ratio))
    rows = np.flatnonzero(golden.rows == position.row)[:_LISTED]
    experts = np.unique(np.searchsorted(np.cumsum(golden.counts), rows, side="right"))
    return replace(
        position,
        ratio=plain_ratio(position.ratio),
        rows=tuple(rows.tolist()),
        experts=tuple(experts.tolist()),
    )


def plain_ratio(ratio: float) -> float:
    """A ratio for people: infinite where nothing was allowed."""
    return ratio if ratio <= HUGE else float("inf")
