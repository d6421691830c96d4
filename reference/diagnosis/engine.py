"""Which mistake explains a result: try every hypothesis on some columns, confirm on all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
#: Bytes of weights whose products are computed at a time when a mistake is confirmed.
_CONFIRM_BYTES = 256 << 20
_CONFIRMED = 3


@dataclass(frozen=True)
class Explanation:
    """A mistake that explains the result: ``share`` of all elements (1.0: every one) within the bound."""

    name: str
    title: str
    detail: str
    advice: str
    share: float

    def __str__(self) -> str:
        exact = (
            "explains every element" if self.share == 1.0 else f"explains {self.share:.3%} of the elements"
        )
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.title}{detail}: {exact}. {self.advice}"

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
    found = list(finder.search(progress))
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

    def search(self, progress: Callable[[int, int], None] | None) -> Iterator[tuple[Hypothesis, Explanation]]:
        """The hypotheses that fit, with the variant that fits best."""
        confirmed = 0
        for done, hypothesis in enumerate(HYPOTHESES, start=1):
            for variant, detail, share in self._fitting(hypothesis):
                if not self._whole and confirmed < _CONFIRMED:
                    confirmed += 1
                    share = self._confirm(hypothesis, variant)
                if share >= _SHARE:
                    yield (
                        hypothesis,
                        Explanation(hypothesis.name, hypothesis.title, detail, hypothesis.advice, share),
                    )
            if progress is not None:
                progress(done, len(HYPOTHESES))

    def _fitting(self, hypothesis: Hypothesis) -> list[tuple[int, str, float]]:
        """The number, detail and share of the variant that fits best, if one fits."""
        fitting = []
        with np.errstate(all="ignore"):
            for variant, (detail, outcome) in enumerate(hypothesis.outcomes(self._call)):
                self.tried += 1
                share = explained_share(self._call, outcome)
                if share >= _SHARE:
                    fitting.append((variant, detail, share))
        return sorted(fitting, key=lambda entry: -entry[2])[:1]

    def _confirm(self, hypothesis: Hypothesis, variant: int) -> float:
        """The share that a variant explains over all columns."""
        problem = self._operands.problem
        per_column = max(1, problem.e * problem.k)
        width = max(1, _CONFIRM_BYTES // per_column // COLUMN_GROUP) * COLUMN_GROUP
        explained = 0.0
        for first in range(0, problem.n, width):
            columns = np.arange(first, min(problem.n, first + width))
            call = Call(self._operands, columns, self._out, self._reference)
            with np.errstate(all="ignore"):
                _, outcome = next(islice(hypothesis.outcomes(call), variant, None), ("", None))
                share = 0.0 if outcome is None else explained_share(call, outcome, partial=True)
            if share < _SHARE:
                return share
            explained += share * len(columns)
        return explained / problem.n


def explained_share(call: Call, outcome: Golden, *, partial: bool = False) -> float:
    """Share of the elements of a call's result that an outcome explains; 0 where it does not count.

    An outcome explains an element that is within its bound.  It must also explain most of the elements
    that the golden does not, and must be nearer to them than the golden by half of the difference: a
    mistake that changes nothing explains nothing.  ``partial``: these columns may all be right.
    """
    off_clean, wrong = call.off_clean
    off, unexplained = judge_all(call.out, outcome)
    count = wrong.size
    if not wrong.any():
        return 1.0 - np.count_nonzero(unexplained) / count if partial else 0.0
    nearer = off[wrong] <= 0.5 * off_clean[wrong]
    of_wrong = np.count_nonzero(nearer & ~unexplained[wrong]) / np.count_nonzero(wrong)
    if of_wrong < _SHARE_OF_WRONG:
        return 0.0
    return 1.0 - float(np.count_nonzero(unexplained)) / count


def _select(found: list[tuple[Hypothesis, Explanation]]) -> list[Explanation]:
    """Best first; general explanations only where there is no other."""
    particular = [explanation for hypothesis, explanation in found if not hypothesis.general]
    chosen = particular or [explanation for _, explanation in found]
    return sorted(chosen, key=lambda explanation: -explanation.share)
