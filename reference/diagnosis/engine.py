"""Which mistake explains a result: try every hypothesis on some columns, confirm on all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.comparator import Comparison, compare
from reference.diagnosis.call import COLUMN_GROUP, Call, judge_all
from reference.diagnosis.table import HYPOTHESES, Hypothesis
from reference.golden_operator import Golden, golden
from reference.location import Location, locate
from reference.operands import Operands

#: Columns on which every hypothesis is tried.
_COLUMNS = 32
#: Share of the elements, and of those that the golden does not explain, that a mistake has to explain.
_SHARE, _SHARE_OF_WRONG = 0.99, 0.95
#: Wrong elements that it takes to name a mistake that explains these alone.
_FEWEST = 16
#: Bytes of weights whose products are computed at a time when a mistake is confirmed.
_CONFIRM_BYTES = 256 << 20
_CONFIRMED = 4


@dataclass(frozen=True)
class Explanation:
    """A mistake that explains the result.

    ``everywhere``: the mistake alone explains ``share`` of all elements (1.0: every one) within the bound.
    Otherwise it explains the elements that differ, and the others are right: it was made in a part of the
    output, and ``share`` is explained by the golden or by the mistake.
    """

    name: str
    title: str
    detail: str
    advice: str
    share: float
    everywhere: bool

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.title}{detail}: {self.extent}. {self.advice}"

    @property
    def extent(self) -> str:
        """What it explains, in words."""
        if not self.everywhere:
            return "explains the elements that differ, and only these: made in a part of the output"
        return "explains every element" if self.share == 1.0 else f"explains {self.share:.3%} of the elements"

    def to_json(self) -> dict[str, Any]:
        """The entry of ``explanations``."""
        return dict(vars(self))


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a result, where, and what explains it.

    ``explanations`` is empty where the result is right, and where no hypothesis fits; several mean that
    these mistakes give the same result on this data.  ``tried`` counts variants of hypotheses.
    """

    comparison: Comparison
    location: Location | None
    explanations: tuple[Explanation, ...]
    tried: int

    @property
    def verdict(self) -> str:
        """``PASS`` or ``FAIL``, as of the comparison with the golden."""
        return self.comparison.verdict

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as JSON."""
        return {
            "verdict": self.verdict,
            "comparison": self.comparison.to_json(),
            "where": None if self.location is None else self.location.to_json(),
            "explanations": [explanation.to_json() for explanation in self.explanations],
            "tried": self.tried,
        }


def diagnose(
    operands: Operands,
    out: NDArray[Any],
    *,
    name: str = "out",
    reference: Golden | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """Compare ``out`` (batch, n) with the golden, and say what explains a difference.

    ``reference`` is the call's golden with magnitudes, if there is one already; ``progress`` is called with
    (hypotheses tried, of how many).  Raises ``ValueError`` where the golden does.
    """
    reference = golden(operands, magnitudes=True) if reference is None else reference
    comparison = compare(out, reference.out, reference, a_name=name, b_name="golden")
    if comparison.verdict == "PASS" or out.shape != reference.out.shape or not out.size:
        return Diagnosis(comparison, None, (), 0)
    location = locate(out, reference.out, reference)
    finder = _Finder(operands, out, reference, choose_columns(location.columns))
    found = finder.search(progress)
    return Diagnosis(comparison, location, tuple(_select(found)), finder.tried)


def choose_columns(mismatches: NDArray[np.int64], most: int = _COLUMNS) -> NDArray[np.int64]:
    """Columns to look at: whole groups, half of them where most is wrong, half spread over all."""
    n = len(mismatches)
    if n <= most or n % COLUMN_GROUP:
        return np.arange(n) if n <= most else _even_columns(n, most)
    groups = mismatches.reshape(-1, COLUMN_GROUP).sum(axis=1)
    half = most // COLUMN_GROUP // 2
    worst = np.argsort(-groups, kind="stable")[:half]
    spread = np.linspace(0, len(groups) - 1, half).astype(np.int64)
    chosen = np.unique(np.concatenate([worst, spread]))
    return (chosen[:, None] * COLUMN_GROUP + np.arange(COLUMN_GROUP)).reshape(-1)


def _even_columns(n: int, most: int) -> NDArray[np.int64]:
    """The first and last columns where n is not a multiple of the group: FP4 and FP8 pack two at most."""
    half = most // 2
    return np.unique(np.concatenate([np.arange(half), np.arange(n - half - n % 2, n)]))


class _Finder:
    """Tries hypotheses on some columns, and confirms those that fit on all."""

    def __init__(
        self, operands: Operands, out: NDArray[Any], reference: Golden, columns: NDArray[np.int64]
    ) -> None:
        self._operands, self._out, self._reference = operands, out, reference
        self._call = Call(operands, columns, out, reference)
        self._whole = len(columns) == operands.problem.n
        self.tried = 0

    def search(self, progress: Callable[[int, int], None] | None) -> list[tuple[Hypothesis, Explanation]]:
        """The hypotheses that fit, each with the variant that fits best, best first."""
        fitting = []
        for done, hypothesis in enumerate(HYPOTHESES, start=1):
            fitting += self._fitting(hypothesis)
            if progress is not None:
                progress(done, len(HYPOTHESES))
        fitting.sort(key=lambda fit: fit.explained.rank, reverse=True)
        if not self._whole:
            confirmed = [replace(fit, explained=self._confirm(fit)) for fit in fitting[:_CONFIRMED]]
            fitting = [fit for fit in confirmed if fit.explained.fits]
        return [(fit.hypothesis, fit.explanation()) for fit in fitting]

    def _fitting(self, hypothesis: Hypothesis) -> list[_Fit]:
        """The variant that fits best, if one fits."""
        fits = []
        with np.errstate(all="ignore"):
            for variant, (detail, outcome) in enumerate(hypothesis.outcomes(self._call)):
                self.tried += 1
                explained = explain(self._call, outcome)
                if explained.fits:
                    fits.append(_Fit(hypothesis, variant, detail, explained))
        return sorted(fits, key=lambda fit: fit.explained.rank, reverse=True)[:1]

    def _confirm(self, fit: _Fit) -> Explained:
        """What a variant explains over all columns, or over those up to where it fails."""
        problem = self._operands.problem
        per_column = max(1, problem.e * problem.k)
        width = max(1, _CONFIRM_BYTES // per_column // COLUMN_GROUP) * COLUMN_GROUP
        total = Explained(0, 0, 0, 0)
        for first in range(0, problem.n, width):
            columns = np.arange(first, min(problem.n, first + width))
            call = Call(self._operands, columns, self._out, self._reference)
            with np.errstate(all="ignore"):
                found = next(islice(fit.hypothesis.outcomes(call), fit.variant, None), None)
                total += Explained(call.out.size, 1, 0, 0) if found is None else explain(call, found[1])
            if total.wrong_explained < 0.5 * total.wrong:
                break
        return total


@dataclass(frozen=True)
class Explained:
    """Elements that were looked at: all, those that the golden does not explain, and how many of these
    and of all a mistake explains."""

    count: int
    wrong: int
    wrong_explained: int
    all_explained: int

    def __add__(self, other: Explained) -> Explained:
        return Explained(
            self.count + other.count,
            self.wrong + other.wrong,
            self.wrong_explained + other.wrong_explained,
            self.all_explained + other.all_explained,
        )

    @property
    def fits(self) -> bool:
        """Whether the mistake explains most of what is wrong, and either all the rest or enough elements."""
        if not self.wrong or self.wrong_explained < _SHARE_OF_WRONG * self.wrong:
            return False
        return self.everywhere or self.wrong >= _FEWEST

    @property
    def everywhere(self) -> bool:
        """Whether the mistake explains the elements that are right, too."""
        return self.all_explained >= _SHARE * self.count

    @property
    def share(self) -> float:
        """Share of the elements that the mistake explains; if not everywhere, it or the golden."""
        if self.everywhere:
            return self.all_explained / self.count
        return 1.0 - (self.wrong - self.wrong_explained) / self.count

    @property
    def rank(self) -> tuple[bool, float]:
        """Orders mistakes: those made everywhere before others, then by share."""
        return self.everywhere, self.share


@dataclass(frozen=True)
class _Fit:
    """A hypothesis and the number of its variant that fits."""

    hypothesis: Hypothesis
    variant: int
    detail: str
    explained: Explained

    def explanation(self) -> Explanation:
        """In words."""
        row, explained = self.hypothesis, self.explained
        return Explanation(
            row.name, row.title, self.detail, row.advice, explained.share, explained.everywhere
        )


def explain(call: Call, outcome: Golden) -> Explained:
    """How much of a call's result an outcome explains.

    It explains an element that is within its bound; one that the golden does not explain it must also be
    nearer to, by half of the difference: a mistake that changes nothing explains nothing.
    """
    off_clean, wrong = call.off_clean
    off, unexplained = judge_all(call.out, outcome)
    nearer = off[wrong] <= 0.5 * off_clean[wrong]
    return Explained(
        wrong.size,
        int(np.count_nonzero(wrong)),
        int(np.count_nonzero(nearer & ~unexplained[wrong])),
        wrong.size - int(np.count_nonzero(unexplained)),
    )


def _select(found: list[tuple[Hypothesis, Explanation]]) -> list[Explanation]:
    """Mistakes made everywhere where there are any; general ones only where there is no other."""
    for general in (False, True):
        for everywhere in (True, False):
            chosen = [e for row, e in found if row.general == general and e.everywhere == everywhere]
            if chosen:
                return chosen
    return []
