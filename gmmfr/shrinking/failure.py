"""How a call fails on a backend, and whether another call fails the same way."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass

import numpy as np

from gmmfr.backends import find_backend
from gmmfr.result import NotRunError, Result
from gmmfr.running import run_backend
from reference.comparator import Comparison, compare
from reference.diagnosis import Explanation, diagnose
from reference.golden_operator import golden
from reference.operands import Operands
from reference.validator import validate


@dataclass(frozen=True)
class Failure:
    """One failure.

    ``kind``: ``error`` (the backend broke off), ``shape`` (an output of another shape or type),
    ``non-finite`` (NaN or infinity where the golden is finite), or ``mismatch``.  ``explanations`` are the
    mistakes that explain the output; ``words`` say what happened; ``comparison`` is the one with the golden,
    if it came to that.
    """

    kind: str
    words: str
    explanations: tuple[Explanation, ...] = ()
    comparison: Comparison | None = None

    @property
    def names(self) -> frozenset[str]:
        """The names of the explanations."""
        return frozenset(explanation.name for explanation in self.explanations)

    def is_like(self, other: Failure) -> bool:
        """Whether this is the failure ``other``: the same kind, and no explanation that does not explain it.

        A smaller call may leave fewer of several explanations, never none and never another one.
        """
        if self.kind != other.kind:
            return False
        if self.kind == "error":
            return _without_numbers(self.words) == _without_numbers(other.words)
        return (
            self.names == other.names if not other.names else bool(self.names) and self.names <= other.names
        )

    def __str__(self) -> str:
        reasons = "; ".join(str(explanation) for explanation in self.explanations)
        return f"{self.words}; {reasons}" if reasons else self.words


def observe(operands: Operands, backend: str) -> Failure | None:
    """How ``operands`` fails on ``backend``; None where it does not, or the validator refuses it.

    Raises :class:`NotRunError` where the backend cannot run it.
    """
    if not validate(operands.problem, operands.arrays).ok:
        return None
    with contextlib.redirect_stderr(io.StringIO()):  # hundreds of tracebacks of the same failure
        result = run_backend(find_backend(backend, operands.problem), operands)
    if result.failed:
        return Failure("error", result.reason or "failed")
    if result.output is None:
        raise NotRunError(f"{result.backend}: {result.reason}")
    return _judge(operands, result)


def _judge(operands: Operands, result: Result) -> Failure | None:
    out = result.out
    truth = golden(operands, magnitudes=True)
    comparison = compare(out, truth.out, truth, a_name=result.backend, b_name="golden")
    if comparison.verdict == "PASS":
        return None
    words = comparison.reason or "differs from the golden"
    if out.shape != truth.out.shape or out.dtype.kind != "f":
        return Failure("shape", words, comparison=comparison)
    alone = ~np.isfinite(out) & np.isfinite(truth.out)
    explanations = diagnose(operands, out, reference=truth).explanations
    return Failure("non-finite" if alone.any() else "mismatch", words, explanations, comparison)


def _without_numbers(words: str) -> str:
    return re.sub(r"\d+", "#", words)[:200]
