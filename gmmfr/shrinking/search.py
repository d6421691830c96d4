"""The search for a smaller call that fails the same way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gmmfr.loading import load_call
from gmmfr.result import NotRunError
from gmmfr.shrinking.cuts import Cut, Cutter, owners
from gmmfr.shrinking.failure import Failure, observe
from gmmfr.shrinking.values import simplifications
from reference.operands import Operands
from reference.validator import validate

Report = Callable[[str], None]
#: Columns around the worst element that are tried first, where fewer do not do.
_WINDOW = 128


@dataclass(frozen=True)
class Shrunk:
    """A smaller call that fails the same way: ``failure`` is its own, ``original`` that of the given call.

    ``tried`` counts calls that were run, ``accepted`` says what was cut, in order; ``complete`` is False
    where time ran out.
    """

    operands: Operands
    failure: Failure
    original: Failure
    tried: int
    accepted: tuple[str, ...]
    complete: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the operands."""
        return nbytes(self.operands)


def nbytes(operands: Operands) -> int:
    """Bytes of all operands of a call."""
    return sum(array.nbytes for array in operands.arrays.values())


def shrink(
    operands: Operands | str | os.PathLike[str],
    backend: str,
    *,
    seconds: float = 120.0,
    report: Report = lambda _: None,
) -> Shrunk | None:
    """Look for a smaller call that fails on ``backend`` as this one does; None where this one does not fail.

    ``seconds`` bounds the search; ``report`` hears of each step that was accepted.  Raises
    ``InvalidProblemError`` for a call that the validator refuses, :class:`NotRunError` where the backend
    cannot run it.
    """
    call = load_call(operands)
    validate(call.problem, call.arrays).raise_for_violations()
    original = observe(call, backend)
    if original is None:
        return None
    search = _Search(call, original, backend, time.monotonic() + seconds, report)
    search.run()
    return Shrunk(
        search.current, search.failure, original, search.tried, tuple(search.accepted), not search.is_over()
    )


class _Search:
    """Keeps the smallest call so far, and tries smaller ones until nothing can be left out."""

    def __init__(
        self, call: Operands, original: Failure, backend: str, deadline: float, report: Report
    ) -> None:
        self.current, self.failure = call, original
        self._original, self._backend = original, backend
        self._deadline, self._report = deadline, report
        self._cutter = Cutter.of(call)
        self.tried = 1
        self.accepted: list[str] = []

    def is_over(self) -> bool:
        """Whether time has run out."""
        return time.monotonic() > self._deadline

    def run(self) -> None:
        """Jump to where the failure is, then leave things out until a round changes nothing."""
        self._jump()
        before = -1
        while len(self.accepted) != before and not self.is_over():
            before = len(self.accepted)
            self._minimise("experts", self.current.problem.e, self._cutter.experts)
            self._minimise("tokens", self.current.batch, self._cutter.tokens)
            self._minimise("rows", self.current.problem.m, self._cutter.rows)
            self._minimise("parts of k", self._units("k"), self._cutter.parts_of_k)
            self._minimise("columns", self._units("n"), self._cutter.columns)
            for change in simplifications(self.current, self._cutter.recompute_bias):
                simpler = None if self.is_over() else change.apply(self.current)
                if simpler is not None:
                    self._try(simpler, change.words)

    def _units(self, axis: str) -> int:
        problem, cutter = self.current.problem, self._cutter
        length, unit = (problem.k, cutter.k_unit) if axis == "k" else (problem.n, cutter.n_unit)
        return -(-length // unit)

    def _jump(self) -> None:
        """Try the neighbourhood of the worst element first: one window of columns, one token, its experts."""
        comparison = self.failure.comparison
        if comparison is None or not comparison.worst:
            self._halve_columns()
            return
        worst = comparison.worst[0]
        units, unit = self._units("n"), self._cutter.n_unit
        for width in (self._cutter.n_least, _WINDOW):
            count = min(units, -(-width // unit))
            start = min(max(0, worst.column // unit - count // 2), units - count)
            window = range(start, start + count)
            if count < units and self._cut(self._cutter.columns, window, f"{count * unit} columns"):
                break
        token = worst.row
        if self.current.batch > 1:
            self._cut(self._cutter.tokens, [token], f"token {token}")
        busy = np.unique(owners(self.current))
        experts = busy[busy < self.current.problem.e].tolist()
        if 0 < len(experts) < self.current.problem.e:
            self._cut(self._cutter.experts, experts, f"experts {experts}")

    def _halve_columns(self) -> None:
        """Without a place to look at: half of the columns, as often as that fails too."""
        units = self._units("n")
        while units > 1 and self._cut(self._cutter.columns, range(units // 2), "half of the columns"):
            units //= 2

    def _minimise(self, what: str, length: int, cut: Cut) -> None:
        """Leave out runs of items, long ones first, where the call fails the same way without them."""
        size = length // 2
        while size >= 1 and not self.is_over():
            start = 0
            while start < length and length > 1 and not self.is_over():
                items = [*range(start), *range(start + size, length)]
                if items and self._cut(cut, items, f"{length} to {len(items)} {what}"):
                    length = len(items) if what != "rows" else self.current.problem.m
                    length = self.current.batch if what == "tokens" else length
                else:
                    start += size
            size //= 2

    def _cut(self, cut: Cut, items: Sequence[int], words: str) -> bool:
        return self._try(cut(self.current, items), words)

    def _try(self, candidate: Operands, words: str) -> bool:
        """Accept ``candidate`` where it fails as the original does."""
        self.tried += 1
        try:
            failure = observe(candidate, self._backend)
        except NotRunError:
            return False
        if failure is None or not failure.is_like(self._original):
            return False
        self.current, self.failure = candidate, failure
        self.accepted.append(words)
        self._report(f"{words}: {nbytes(candidate):,} bytes")
        return True
