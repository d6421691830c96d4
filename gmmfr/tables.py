"""What people read: the tables of ``gmmfr ab`` and ``gmmfr compare``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from gmmfr.ab_check import AbReport
from gmmfr.cli_support import print_table
from gmmfr.result import Result
from reference.comparator import Comparison, Position
from reference.problem import Problem

if TYPE_CHECKING:
    from rich.console import Console

_STYLE = {"PASS": "bold green", "FAIL": "bold red", "INVALID": "bold red", "NOT RUN": "bold yellow"}


#: The commands, for a shell, that say why the output of a backend differs from the golden.
Why = Callable[[str], str]


def print_ab(console: Console, report: AbReport, problem: Problem, why: Why) -> None:
    """Print where each side ran, how they compare, what is wrong, and the verdict last."""
    console.print(describe_call(report.case, problem), style="bold", markup=False)
    _print_violations(console, report)
    if report.backends:
        print_table(console, _backends_table(report))
    if report.comparisons:
        print_table(console, _comparisons_table(report))
    for result in report.backends.values():
        for line in _remarks(result):
            console.print(Text(line), soft_wrap=True)
    for comparison in report.comparisons:
        _print_failure(console, comparison)
    for comparison in report.comparisons:
        if comparison.b == "golden" and comparison.worst and comparison.verdict == "FAIL":
            console.print(Text(f"why: {why(comparison.a)}", style="dim"), soft_wrap=True)
    console.print(Text(report.verdict, style=_STYLE[report.verdict]))


def _print_violations(console: Console, report: AbReport) -> None:
    """What refuses the call in full; what is only remarkable as a count."""
    blocking = [v for v in report.violations if v.level in ("rejected", "hazard")]
    for violation in blocking:
        console.print(f"{violation.level}: {violation.message}", markup=False)
    remarks = len(report.violations) - len(blocking)
    if remarks:
        plural = "remark" if remarks == 1 else "remarks"
        console.print(
            f"{remarks} {plural} on this call: gmmfr validate {report.case}", style="dim", markup=False
        )


def describe_call(case: str, problem: Problem) -> str:
    """One line: the case, its platform, element formats and extents."""
    try:
        extents = f"m {problem.m}, k {problem.k}, n {problem.n}, e {problem.e}, batch {problem.batch}"
        kinds = f"{problem.spec('x1').dtype} × {problem.spec('x2').dtype}"
    except (ValueError, IndexError):  # a call that the validator refuses may lack any of them
        return f"{case}: {problem.platform_row.title}"
    return f"{case}: {problem.platform_row.title}, {kinds}, {extents}"


def _backends_table(report: AbReport) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("backend", "ran on", "seconds"):
        table.add_column(title, justify="right" if title == "seconds" else "left")
    for result in report.backends.values():
        seconds = "" if result.seconds is None else f"{result.seconds:.3f}"
        table.add_row(Text(result.backend), Text(_where(result)), seconds)
    return table


def _where(result: Result) -> str:
    if not result.ran:
        return _outcome(result)
    return "; ".join([result.device or "", *result.notes])


def _outcome(result: Result) -> str:
    return "FAILED" if result.failed else "NOT RUN"


def _remarks(result: Result) -> list[str]:
    """Why there is no output, at its length; else what of it is no number."""
    if result.output is None:
        return [f"{result.backend}: {_outcome(result)}: {result.cause}"]
    special = describe_special(result.output)
    return [f"{result.backend}: {special}"] if special else []


def describe_special(out: NDArray[Any]) -> str:
    """How many elements of ``out`` are NaN and infinite; nothing where all are finite."""
    if out.dtype.kind != "f" or np.isfinite(out).all():
        return ""
    nan, infinite = np.count_nonzero(np.isnan(out)), np.count_nonzero(np.isinf(out))
    return f"{nan} of {out.size} elements are NaN, {infinite} infinite"


def _comparisons_table(report: AbReport) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in (
        "comparison",
        "verdict",
        "elements",
        "mismatches",
        "max |a-b|",
        "worst / bound",
        "outside 1e-3",
    ):
        table.add_column(title, justify="left" if title in ("comparison", "verdict") else "right")
    for c in report.comparisons:
        table.add_row(
            Text(f"{c.a} – {c.b}"),
            Text(c.verdict, style=_STYLE[c.verdict]),
            str(c.count),
            str(c.mismatches),
            f"{c.max_abs:.3g}",
            f"{c.max_ratio:.3g}",
            str(c.outside_1e_3),
        )
    return table


def _print_failure(console: Console, comparison: Comparison) -> None:
    """What a failed comparison must say: count and share, the worst positions, what would have passed."""
    if comparison.verdict != "FAIL":
        return
    share = comparison.mismatches / max(1, comparison.count)
    console.print(f"{comparison.a} – {comparison.b}: {comparison.reason}", markup=False)
    if not comparison.worst:
        return
    console.print(
        f"  mismatches {comparison.mismatches} of {comparison.count} ({share:.2%}); "
        f"criterion {comparison.criterion}; {comparison.remedy}",
        markup=False,
    )
    for worst in comparison.worst:
        console.print(f"  {_describe_position(comparison, worst)}", markup=False)


def _describe_position(comparison: Comparison, worst: Position) -> str:
    experts = f"; experts {', '.join(map(str, worst.experts))}" if worst.experts else ""
    return (
        f"row {worst.row}, column {worst.column}: {comparison.a} {np.float32(worst.a)!s}, {comparison.b} "
        f"{np.float32(worst.b)!s}, {worst.distance}{experts}"
    )
