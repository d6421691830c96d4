"""``gmmfr diagnose``: why a result is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gmmfr.cli_support import EXIT_CODES, console, print_json, progress_bar

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    from reference.diagnosis import Diagnosis


@click.command("diagnose")
@click.argument("case")
@click.argument("out", metavar="OUT")
@click.option("--seed", type=int, default=0, help="seed of a named case")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(case: str, out: str, seed: int, as_json: bool) -> None:
    """Say where a saved result of CASE differs from the golden, and which mistake explains it.

    OUT is a results file (see `gmmfr run`), or a bundle with a recorded output (of several,
    FILE.safetensors:BACKEND).  The golden is recomputed under some fifty kinds of classic
    mistakes on the call's own data; a mistake is named when its result agrees with OUT within the bound.
    """
    from gmmfr.loading import load_call, load_output
    from reference.diagnosis import diagnose
    from reference.golden_operator import golden
    from reference.validator import validate

    call, result = load_call(case, seed), load_output(out)
    report = validate(call.problem, call.arrays)
    if not report.ok:
        _print_invalid(case, report, as_json)
        raise SystemExit(EXIT_CODES["INVALID"])
    with progress_bar("golden", quiet=as_json) as progress:
        reference = golden(call, magnitudes=True, progress=progress)
    with progress_bar("hypotheses", quiet=as_json) as progress:
        diagnosis = diagnose(call, result, name=out, reference=reference, progress=progress)
    if as_json:
        print_json({"case": case, "out": out, **diagnosis.to_json(), "violations": _violations(report)})
    else:
        _print(console(), diagnosis, result)
    raise SystemExit(EXIT_CODES[diagnosis.verdict])


def _violations(report: Any) -> list[dict[str, Any]]:
    return [violation.to_json() for violation in report.violations]


def _print_invalid(case: str, report: Any, as_json: bool) -> None:
    if as_json:
        print_json({"case": case, "verdict": "INVALID", "violations": _violations(report)})
        return
    for violation in report.violations:
        console().print(f"{violation.level}: {violation.message}", markup=False)
    console().print("INVALID", style="bold red")


def _print(to: Console, diagnosis: Diagnosis, result: NDArray[Any]) -> None:
    from gmmfr.tables import describe_special

    comparison = diagnosis.comparison
    if diagnosis.verdict == "PASS":
        to.print(
            f"{comparison.a} agrees with the golden: all {comparison.count} elements are within "
            f"{comparison.criterion}, the worst at {comparison.max_ratio:.3g} of it.",
            markup=False,
        )
        to.print("PASS", style="bold green")
        return
    to.print(f"{comparison.a} – golden: {comparison.reason}", markup=False)
    special = describe_special(result)
    if special:
        to.print(f"{comparison.a}: {special}", markup=False)
    if diagnosis.location is not None:
        to.print("\nWhere", style="bold")
        for line in diagnosis.location.describe():
            to.print(f"  {line}", markup=False)
        for worst in comparison.worst[:3]:
            to.print(f"  {describe_element(worst, comparison.a)}", markup=False)
    to.print("\nWhy", style="bold")
    for explanation in diagnosis.explanations:
        to.print(f"  {explanation.name}: {explanation}", markup=False)
    if not diagnosis.explanations:
        to.print(f"  none of {diagnosis.tried} variants of classic mistakes gives this result", markup=False)
    elif len(diagnosis.explanations) > 1:
        to.print("  these give the same result on this data: try a call whose data tells them apart")
    to.print("FAIL", style="bold red")


def describe_element(worst: Any, name: str) -> str:
    """One element: where it is, both values, what was added into its row."""
    rows = ", ".join(map(str, worst.rows)) or "none"
    experts = ", ".join(map(str, worst.experts)) or "none"
    return (
        f"row {worst.row}, column {worst.column}: {name} {worst.a:.9g}, golden {worst.b:.9g}, "
        f"{worst.distance}; rows of x1: {rows}; experts: {experts}"
    )
