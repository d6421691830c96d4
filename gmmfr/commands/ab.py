"""``gmmfr ab``: the A/B check."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import ExitStack
from typing import Literal

import click

from gmmfr.cli_support import (
    EXIT_CODES,
    console,
    judging_options,
    print_json,
    progress_bar,
    spare_stdout,
)


@click.command("ab")
@click.argument("case")
@click.option("-a", "first", default="auto", show_default=True, help="backend A")
@click.option("-b", "second", default=None, help="backend B")
@click.option("--seed", type=int, default=0, help="seed of a named case")
@click.option(
    "--time", "repeats", type=click.IntRange(1), default=1, help="runs per backend; the median time is shown"
)
@judging_options
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(
    case: str,
    first: str,
    second: str | None,
    seed: int,
    repeats: int,
    criterion: Literal["bound", "rtol"],
    report_file: str | None,
    as_json: bool,
) -> None:
    """Run CASE on A (and B) and compare each with the golden.

    A backend is golden, simulator, aclnn, pypto, torch_npu, auto (aclnn where a device answers, else
    simulator), or your own kernel as path/to/file.py:function.
    """
    from gmmfr.ab_check import ab
    from gmmfr.loading import load_call
    from gmmfr.refused_call import say_how_to_report
    from gmmfr.report import check_name, write_report
    from gmmfr.tables import print_ab
    from gmmfr.why import run_and_diagnose

    if report_file is not None:
        check_name(report_file)
    call = load_call(case, seed)
    with spare_stdout(as_json), ExitStack() as bars:

        def progress(name: str) -> Callable[[int, int], None] | None:
            return bars.enter_context(progress_bar(name, quiet=as_json))

        report = ab(call, first, second, case=case, progress=progress, repeats=repeats, criterion=criterion)
    if report_file is not None:
        write_report(report_file, report, call, _repeat(case, first, second, seed, criterion))
    if as_json:
        print_json(report.to_json())
    else:
        print_ab(console(), report, call.problem, lambda name: run_and_diagnose(case, name, seed))
    say_how_to_report(case, seed, report.backends.values())
    raise SystemExit(EXIT_CODES[report.verdict])


def _repeat(case: str, first: str, second: str | None, seed: int, criterion: str) -> str:
    """The command that repeats the check."""
    words = ["gmmfr", "ab", case, "-a", first]
    words += [] if second is None else ["-b", second]
    words += ["--seed", str(seed)] if seed else []
    words += ["--criterion", criterion] if criterion != "bound" else []
    return shlex.join(words)
