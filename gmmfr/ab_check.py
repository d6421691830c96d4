"""The A/B check: one call on two backends, each compared with the golden and with the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from gmmfr.backend import Progress
from gmmfr.backends import find_backend
from gmmfr.cli_support import UsageFailure
from gmmfr.loading import load_call
from gmmfr.result import Result
from gmmfr.running import run_backend
from reference.comparator import Comparison, compare
from reference.golden_operator import Golden, golden
from reference.judging import Criterion
from reference.operands import Operands
from reference.validator import validate


@dataclass(frozen=True)
class AbReport:
    """Verdict, results by backend, comparisons, and the validator's violations.

    ``verdict``: ``INVALID`` where the validator refuses the call, else ``FAIL`` over ``NOT RUN`` over
    ``PASS``.  ``reference`` is the golden with its magnitudes, ``criterion`` what decided.
    """

    verdict: str
    case: str
    backends: Mapping[str, Result] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    violations: tuple[Any, ...] = ()
    reference: Golden | None = field(default=None, repr=False, compare=False)
    criterion: Criterion = "bound"

    def to_json(self) -> dict[str, Any]:
        """The JSON of ``gmmfr ab``."""
        return {
            "verdict": self.verdict,
            "case": self.case,
            "backends": {name: result.to_json() for name, result in self.backends.items()},
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            "violations": [violation.to_json() for violation in self.violations],
        }


def ab(
    operands: Operands | str | os.PathLike[str],
    a: str = "auto",
    b: str | None = None,
    *,
    case: str | None = None,
    progress: Callable[[str], Progress | None] = lambda _: None,
    repeats: int = 1,
    criterion: Criterion = "bound",
) -> AbReport:
    """Run a call on ``a`` and ``b`` and compare each with the golden, and ``a`` with ``b``.

    ``criterion`` decides: the ``bound`` of each sum, or ``rtol`` (rtol = atol = 1e-3).  ``progress`` gives
    the progress callback of the named backend.  Naming one backend twice, or the golden (which always
    runs), is a usage error.
    """
    call = load_call(operands)
    label = case or (
        operands
        if isinstance(operands, str)
        else os.fspath(operands)
        if isinstance(operands, os.PathLike)
        else "call"
    )
    chosen = [find_backend(name, call.problem) for name in (a, b) if name is not None]
    names = [backend.name for backend in chosen]
    if len({"golden", *(backend.identity for backend in chosen)}) <= len(chosen):
        hint = "; name another one with -a" if b is not None and a == "auto" else ""
        raise UsageFailure(
            f"backends {', '.join(names)}: each must be another one, and the golden always runs{hint}"
        )
    report = validate(call.problem, call.arrays)
    if not report.ok:
        return AbReport("INVALID", label, violations=tuple(report.violations))
    begin = time.perf_counter()
    reference = golden(call, magnitudes=True, progress=progress("golden"))
    results = {"golden": Result("golden", reference.out, "numpy float64", time.perf_counter() - begin)}
    for backend in chosen:
        results[backend.name] = run_backend(backend, call, progress(backend.name), repeats)
    comparisons = compare_all(
        reference, {name: r.output for name, r in results.items() if r.output is not None}, criterion
    )
    verdict = overall_verdict(results, comparisons)
    return AbReport(verdict, label, results, comparisons, tuple(report.violations), reference, criterion)


def compare_all(
    reference: Golden, outputs: Mapping[str, NDArray[Any]], criterion: Criterion = "bound"
) -> tuple[Comparison, ...]:
    """Each output with the golden, then the outputs with each other."""
    names = [name for name in outputs if name != "golden"]
    values = {**outputs, "golden": reference.out}
    pairs = [(name, "golden") for name in names]
    pairs += [(x, y) for i, x in enumerate(names) for y in names[i + 1 :]]
    return tuple(
        compare(values[x], values[y], reference, a_name=x, b_name=y, criterion=criterion) for x, y in pairs
    )


def overall_verdict(results: Mapping[str, Result], comparisons: tuple[Comparison, ...]) -> str:
    """``FAIL`` over ``NOT RUN`` over ``PASS``; nothing compared is never a pass."""
    if any(c.verdict == "FAIL" for c in comparisons) or any(r.failed for r in results.values()):
        return "FAIL"
    if not comparisons or not all(r.ran for r in results.values()):
        return "NOT RUN"
    return "PASS"


def compare_saved(
    operands: Operands,
    saved: Mapping[str, NDArray[Any]],
    *,
    case: str,
    progress: Progress | None = None,
    criterion: Criterion = "bound",
) -> AbReport:
    """Judge outputs that were computed elsewhere: each with the golden, and with each other."""
    report = validate(operands.problem, operands.arrays)
    if not report.ok:
        return AbReport("INVALID", case, violations=tuple(report.violations))
    begin = time.perf_counter()
    reference = golden(operands, magnitudes=True, progress=progress)
    results = {"golden": Result("golden", reference.out, "numpy float64", time.perf_counter() - begin)}
    results.update({name: Result(name, out, "saved result") for name, out in saved.items()})
    comparisons = compare_all(reference, {name: result.out for name, result in results.items()}, criterion)
    verdict = overall_verdict(results, comparisons)
    return AbReport(verdict, case, results, comparisons, tuple(report.violations), reference, criterion)
