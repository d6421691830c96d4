"""The judge of single elements: what difference is allowed, and each difference in units of that.

An element of the output is a sum of products.  Computed in float32 in any order, with random rounding
errors, it may differ from the exact value by

    bound = C · √terms · 2^-24 · Σ|terms|  +  terms · 2^-149  +  rounding

where ``terms`` and ``Σ|terms|`` come from the golden, with shared input and every scattered row in them,
the second part is float32's underflow, and ``rounding`` the device's own half-precision partials (W4A8).
Where the operands leave no room for rounding (reference.exactness) only ``rounding`` is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reference.golden_operator import Golden

Criterion = Literal["bound", "rtol"]

#: The constant of the bound, from measurements (benchmarks/rounding.py, docs/comparison.md).
C = 4.0
FLOAT32_MAX = float(np.finfo(np.float32).max)
_UNIT = 2.0**-24
_UNDERFLOW = 2.0**-149
#: Added to every bound: keeps 0 / 0 from being computed, and is too small to allow anything.
_TINY = 1e-150
#: Ratios beyond this come from a bound of zero: they order errors, and mean infinity.
HUGE = 1e100
#: Bounds up to this are that addend alone: the values must be equal.
EQUAL = 2 * _TINY
#: Elements judged at a time: their temporaries stay in the processor's cache.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Judgement:
    """Some rows of two results, in float64: values, difference, allowed difference, and their ratio.

    ``first`` is the number of the first row; ``finite`` tells that no value is NaN or infinite.  ``ratio``
    is 0 where both values are the same (both NaN, or the same infinity), infinite where one alone is not
    finite.
    """

    first: int
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    difference: NDArray[np.float64]
    bound: NDArray[np.float64]
    ratio: NDArray[np.float64]
    finite: bool


@dataclass(frozen=True)
class Judge:
    """Judges results of the call that ``golden`` (with magnitudes) belongs to.

    ``criterion`` is ``bound``, or ``rtol``: |a-b| ≤ atol + rtol·|b|.  ``sides`` says how many of the two
    results carry rounding.
    """

    golden: Golden
    sides: int = 1
    criterion: Criterion = "bound"
    rtol: float = 1e-3
    atol: float = 1e-3

    def __post_init__(self) -> None:
        if self.golden.magnitude is None or self.golden.terms is None:
            raise ValueError("golden: expected one computed with magnitudes=True")
        if self.criterion not in ("bound", "rtol"):
            raise ValueError(f"criterion: expected 'bound' or 'rtol', got {self.criterion!r}")

    def __str__(self) -> str:
        if self.criterion == "rtol":
            return f"|a-b| ≤ {self.atol:g} + {self.rtol:g}·|b|"
        partials = "" if self.golden.rounding is None else " + fp16 partials"
        if self.golden.exact:
            what = (
                "fp16 partials"
                if partials and self._partials_round()
                else "0 (all sums are exact in float32)"
            )
            return f"|a-b| ≤ {what}"
        bound = f"{C:g}·√terms·2^-24·Σ|terms|{partials}"
        if self.sides == 1:
            return f"|a-b| ≤ {bound}"
        return f"|a-b| ≤ 2·({bound})" if partials else f"|a-b| ≤ 2·{bound}"

    def _partials_round(self) -> bool:
        return self.golden.rounding is not None and bool(self.golden.rounding.any())

    def judge(self, a: NDArray[Any], b: NDArray[Any]) -> Iterator[Judgement]:
        """Judge ``a`` against ``b`` (batch, n), some rows at a time."""
        step = max(1, _CHUNK // max(1, a.shape[1]))
        for first in range(0, a.shape[0], step):
            rows = slice(first, first + step)
            with np.errstate(all="ignore"):
                yield self._judge_rows(rows, a[rows], b[rows])

    def _judge_rows(self, rows: slice, a: NDArray[Any], b: NDArray[Any]) -> Judgement:
        x, y = as_float32_range(a), as_float32_range(b)
        difference = np.abs(x - y)
        bound = self._allowed(rows, y)
        ratio = difference / bound
        finite = bool(np.isfinite(difference.sum())) and bool(np.isfinite(bound.max(initial=0.0)))
        if not finite:
            self._settle_special(rows, x, y, ratio)
        return Judgement(rows.start, x, y, difference, bound, ratio, finite)

    def _allowed(self, rows: slice, y: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.criterion == "rtol":
            allowed = np.abs(y)
            allowed *= self.rtol
            allowed += self.atol + _TINY
            return allowed
        return self.bound(rows)

    def bound(self, rows: slice) -> NDArray[np.float64]:
        """The difference that rounding may explain, for some rows of out."""
        golden = self.golden
        if golden.magnitude is None or golden.terms is None:
            raise ValueError("golden: expected one computed with magnitudes=True")
        if golden.exact:
            allowed = np.zeros(golden.magnitude[rows].shape)
        else:
            terms = golden.terms[rows].astype(np.float64)[:, None]
            allowed = golden.magnitude[rows] * (C * _UNIT * self.sides * np.sqrt(terms))
            allowed += _UNDERFLOW * self.sides * terms
        if golden.rounding is not None:
            allowed += golden.rounding[rows] * float(self.sides)
        allowed += _TINY
        return allowed

    def _settle_special(
        self, rows: slice, x: NDArray[np.float64], y: NDArray[np.float64], ratio: NDArray[np.float64]
    ) -> None:
        """NaN and infinities: the same on both sides, or a mismatch."""
        finite = np.isfinite(x) & np.isfinite(y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        ratio[~finite] = np.inf
        ratio[same] = 0.0
        ratio[np.isnan(ratio)] = np.inf
        if self.criterion == "bound" and self.golden.magnitude is not None:
            # Beyond float32's range a partial sum overflows in one order and not in another.  A golden in
            # float64 tells such sums, which it holds, from infinities and NaNs in the operands.
            beyond = ~(self.golden.magnitude[rows] < FLOAT32_MAX) & ~finite
            if self.golden.out.dtype == np.float64:
                beyond &= np.isfinite(self.golden.out[rows])
            ratio[beyond] = 0.0


def as_float32_range(values: NDArray[Any]) -> NDArray[np.float64]:
    """``values`` as float64, infinite where float32 is."""
    wide = values.astype(np.float64, copy=False)
    if values.dtype == np.float32 or not wide.size:
        return wide
    limit = FLOAT32_MAX * (1 + 2.0**-25)
    if wide.max() <= limit and wide.min() >= -limit:
        return wide
    return np.where(np.abs(wide) > limit, np.copysign(np.inf, wide), wide)
