"""``gmmfr validate``: what phase 1 will say about a call, and everything that is wrong with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gmmfr.cli_support import FAILURE, PASS, UsageFailure, console, print_json, print_table

if TYPE_CHECKING:
    from reference.problem import Problem
    from reference.validator import Report


@click.command("validate")
@click.argument("problem", metavar="PROBLEM")
@click.option("--strict", is_flag=True, help="also fail on what the documentation does not offer")
@click.option(
    "--bias", "check_bias", is_flag=True, help="recompute the W4A8 bias from the weights (bundle or case)"
)
@click.option("--seed", type=int, default=0, help="seed of a named case")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(problem: str, strict: bool, check_bias: bool, seed: int, as_json: bool) -> None:
    """Judge PROBLEM: a JSON problem file, - for standard input, a .safetensors bundle or a case.

    Prints the status that phase 1 returns and every violation. Exit code 1 where one is a rejection or a
    hazard, with --strict also where one is undocumented.
    """
    from reference.validator import validate

    calls, is_list = load_problems(problem, seed)
    if not calls:
        raise UsageFailure(f"{problem}: the list holds no problem")
    if check_bias and any("x2" not in values for _, values in calls):
        raise UsageFailure("--bias reads the weights: give a bundle or a case")
    reports = [validate(call, values, check_bias=check_bias) for call, values in calls]
    if as_json:
        documents = [report.to_json(strict) for report in reports]
        print_json(documents if is_list else documents[0])
    else:
        for position, ((call, _), report) in enumerate(zip(calls, reports, strict=True)):
            print_report(call, report, strict, f"problem {position}" if is_list else "")
    raise SystemExit(PASS if all(report.passes(strict) for report in reports) else FAILURE)


def load_problems(source: str, seed: int = 0) -> tuple[list[tuple[Problem, Any]], bool]:
    """The problems that ``source`` names, each with its values, and whether it holds a list."""
    from reference.problem import ProblemError
    from reference.problem_files import read_problems

    if source != "-" and (source.endswith(".safetensors") or not is_file(source)):
        from gmmfr.loading import load_call

        operands = load_call(source, seed, any_size=True)
        return [(operands.problem, operands.arrays)], False
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        return read_problems(text)
    except OSError as error:
        raise UsageFailure(f"{source}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageFailure(f"{source}: not UTF-8 text: {error}") from None
    except ProblemError as error:
        raise UsageFailure(f"{source}: {error}") from None


def is_file(source: str) -> bool:
    """Whether ``source`` is meant as a file: it exists, or is written like a path."""
    return os.path.exists(source) or source.endswith(".json") or os.sep in source


def print_report(call: Problem, report: Report, strict: bool, title: str) -> None:
    """The verdict, the violations by importance, and what could not be checked."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    verdict, colour = ("passes", "green") if report.passes(strict) else ("does not pass", "red")
    head = f"{title}: " if title else ""
    line = f"{head}{call.platform_row.title}, phase 1 returns {report.status} {report.status_name}: {verdict}"
    out.print(Text(line, style=f"bold {colour}"))
    if report.violations:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in ("level", "status", "violation, and who says so"):
            table.add_column(column, overflow="fold")
        for violation in report.violations:
            status = str(violation.status) if violation.status else ""
            said = Text(f"{violation.message}\n").append(violation.source, style="dim")
            table.add_row(violation.level, status, said)
        print_table(out, table)
    for line in report.unchecked:
        out.print(Text(f"not checked: {line}", style="dim"))
