"""Compare a result with the golden, or two results with each other, by the condition of each sum.

An element of the output is a sum of products.  Computed in float32 in any order, with sums of random
rounding errors, it may differ from the exact value by

    bound = C · √terms · 2^-24 · Σ|terms|  (+ rounding, the device's own half-precision partials in W4A8)

where ``terms`` and ``Σ|terms|`` come from the golden, with shared input and every scattered row in them.
Small results of large terms may be off by much, large results of few terms only by little: no fixed
tolerance can say that.  Two results may each be off by the bound, so they may differ by twice of it.
No mismatch is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.golden import Golden

#: The constant of the bound.  The largest error measured for plain float32 sums, terms in any order and
#: of one sign or both, is below 1.6 · √terms · 2^-24 · Σ|terms| (docs/comparison.md).
C = 4.0
_UNIT = 2.0**-24
_FLOAT32_MAX = float(np.finfo(np.float32).max)
#: Elements compared at a time: bounds the extra memory.
_CHUNK = 1 << 20
_WORST = 10


@dataclass(frozen=True)
class Position:
    """One element: where, both values, the allowed difference and the difference in units of it."""

    row: int
    column: int
    a: float
    b: float
    bound: float
    ratio: float


@dataclass(frozen=True)
class Comparison:
    """The verdict on two results of one call.

    ``verdict`` is ``PASS`` or ``FAIL``; ``mismatches`` of ``count`` elements differ by more than their bound,
    or are NaN or infinite on one side alone.  ``max_ratio`` is the largest difference in units of the
    bound: the factor that would have passed.  ``outside_1e_3`` counts elements outside rtol = atol = 1e-3.
    """

    a: str
    b: str
    verdict: str
    criterion: str
    count: int
    mismatches: int
    max_abs: float
    max_rel: float
    max_ratio: float
    outside_1e_3: int
    nonfinite: int
    worst: tuple[Position, ...] = field(default_factory=tuple)
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry of ``comparisons`` in the command line's JSON."""
        value: dict[str, Any] = {key: getattr(self, key) for key in _JSON_KEYS}
        value = {key: _json_number(entry) for key, entry in value.items()}
        value["worst"] = [
            {
                "row": w.row,
                "column": w.column,
                "a": _json_number(w.a),
                "b": _json_number(w.b),
                "bound": _json_number(w.bound),
                "ratio": _json_number(w.ratio),
            }
            for w in self.worst
        ]
        return value


_JSON_KEYS = (
    "a",
    "b",
    "verdict",
    "criterion",
    "count",
    "mismatches",
    "max_abs",
    "max_rel",
    "max_ratio",
    "outside_1e_3",
    "nonfinite",
    "reason",
)


def _json_number(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become strings."""
    return repr(value) if isinstance(value, float) and not np.isfinite(value) else value


def compare(
    a: NDArray[Any], b: NDArray[Any], golden: Golden, *, a_name: str = "a", b_name: str = "b", sides: int | None = None
) -> Comparison:
    """Compare results ``a`` and ``b`` (batch, n) of the call that ``golden`` (with magnitudes) belongs to.

    ``sides`` says how many of the two carry float32 rounding: 1 against a float64 golden, else 2 (default:
    1 when ``b`` is the golden's own float64 output).
    """
    if golden.magnitude is None or golden.terms is None:
        raise ValueError("golden: expected one computed with magnitudes=True")
    if sides is None:
        sides = 1 if b is golden.out and b.dtype == np.float64 else 2
    criterion = _criterion(golden, sides)
    problem = _shape_problem(a, golden, a_name) or _shape_problem(b, golden, b_name)
    if problem:
        return Comparison(a_name, b_name, "FAIL", criterion, golden.out.size, golden.out.size, *_NOTHING, reason=problem)
    total = _Totals()
    step = max(1, _CHUNK // max(1, golden.out.shape[1]))
    for first in range(0, golden.out.shape[0], step):
        rows = slice(first, first + step)
        total.add(first, a[rows], b[rows], _bound(golden, rows, sides), golden.magnitude[rows])
    return total.comparison(a_name, b_name, criterion)


_NOTHING = (float("nan"), float("nan"), float("inf"), 0, 0)


def _criterion(golden: Golden, sides: int) -> str:
    rounding = "" if golden.rounding is None else " + fp16 partials"
    bound = f"{C:g}·√terms·2^-24·Σ|terms|{rounding}"
    return f"|a-b| ≤ {bound}" if sides == 1 else f"|a-b| ≤ 2·({bound})" if rounding else f"|a-b| ≤ 2·{bound}"


def _shape_problem(out: NDArray[Any], golden: Golden, name: str) -> str | None:
    if out.shape != golden.out.shape:
        return f"{name} shape: expected {golden.out.shape}, got {out.shape}"
    if out.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        return f"{name} dtype: expected float32, got {out.dtype.name}"
    return None


def _bound(golden: Golden, rows: slice, sides: int) -> NDArray[np.float64]:
    """The difference that rounding may explain, per element."""
    assert golden.magnitude is not None and golden.terms is not None
    bound = golden.magnitude[rows].astype(np.float64)
    bound *= C * _UNIT * np.sqrt(golden.terms[rows].astype(np.float64))[:, None]
    if golden.rounding is not None:
        bound += golden.rounding[rows]
    bound *= sides
    return bound


class _Totals:
    """Collects counts and the worst positions over chunks of rows."""

    def __init__(self) -> None:
        self.count = self.mismatches = self.outside = self.nonfinite = self.finite_pairs = 0
        self.max_abs = self.max_rel = self.max_ratio = 0.0
        self.worst: list[Position] = []

    def add(
        self,
        first: int,
        a: NDArray[Any],
        b: NDArray[Any],
        bound: NDArray[np.float64],
        magnitude: NDArray[np.float32],
    ) -> None:
        """Judge one chunk, whose first row is row ``first`` of the output."""
        with np.errstate(all="ignore"):
            x, y = _as_float32_range(a), _as_float32_range(b)
            difference = np.abs(x - y)
            finite = np.isfinite(x) & np.isfinite(y)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            # Beyond float32's range an intermediate sum may overflow in one order and not in another.
            overflow = ~(magnitude < _FLOAT32_MAX) & ~finite
            ratio = np.where(same | overflow, 0.0, np.where(finite, difference / bound, np.inf))
            ratio[np.isnan(ratio)] = np.inf
            relative = difference / np.abs(y)
            outside = ~(difference <= 1e-3 + 1e-3 * np.abs(y)) & ~same
        wrong = ratio > 1.0
        self.count += ratio.size
        self.mismatches += int(np.count_nonzero(wrong))
        self.outside += int(np.count_nonzero(outside))
        self.nonfinite += int(ratio.size - np.count_nonzero(finite))
        if ratio.size:
            self.max_abs = max(self.max_abs, float(difference.max(where=finite, initial=0.0)))
            self.max_rel = max(self.max_rel, float(relative.max(where=finite & (y != 0), initial=0.0)))
            self.max_ratio = max(self.max_ratio, float(ratio.max()))
            self._remember(first, x, y, bound, ratio)

    def _remember(
        self, first: int, x: NDArray[Any], y: NDArray[Any], bound: NDArray[Any], ratio: NDArray[np.float64]
    ) -> None:
        flat = ratio.reshape(-1)
        candidates = np.argpartition(flat, -_WORST)[-_WORST:] if flat.size > _WORST else np.arange(flat.size)
        for position in candidates[flat[candidates] > 0]:
            row, column = divmod(int(position), ratio.shape[1])
            self.worst.append(
                Position(
                    first + row,
                    column,
                    float(x[row, column]),
                    float(y[row, column]),
                    float(bound[row, column]),
                    float(flat[position]),
                )
            )
        self.worst.sort(key=lambda entry: (-entry.ratio, entry.row, entry.column))
        del self.worst[_WORST:]

    def comparison(self, a: str, b: str, criterion: str) -> Comparison:
        """The verdict over all chunks."""
        reason = None
        if self.mismatches:
            reason = f"{self.mismatches} of {self.count} elements differ by more than their bound"
        elif self.count and self.nonfinite == self.count:
            reason = "every element is NaN or infinite: the comparison has no content"
        return Comparison(
            a,
            b,
            "FAIL" if reason else "PASS",
            criterion,
            self.count,
            self.mismatches,
            self.max_abs,
            self.max_rel,
            self.max_ratio,
            self.outside,
            self.nonfinite,
            tuple(self.worst),
            reason,
        )


def _as_float32_range(values: NDArray[Any]) -> NDArray[np.float64]:
    """float64 copies of ``values``, infinite where float32 is."""
    wide = values.astype(np.float64)
    if values.dtype != np.float32:
        beyond = np.abs(wide) > _FLOAT32_MAX * (1 + 2.0**-25)
        wide[beyond] = np.copysign(np.inf, wide[beyond])
    return wide
