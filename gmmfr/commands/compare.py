"""``gmmfr compare``: judge results that were saved earlier, perhaps on another machine."""

from __future__ import annotations

import shlex
from typing import Literal

import click

from gmmfr.cli_support import (
    EXIT_CODES,
    UsageFailure,
    console,
    judging_options,
    print_json,
    progress_bar,
)


@click.command("compare")
@click.argument("case")
@click.argument("outputs", nargs=-1, required=True, metavar="OUT [OUT2]")
@click.option("--seed", type=int, default=0, help="seed of a named case")
@judging_options
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(
    case: str,
    outputs: tuple[str, ...],
    seed: int,
    criterion: Literal["bound", "rtol"],
    report_file: str | None,
    as_json: bool,
) -> None:
    """Compare saved results of CASE with the golden, and with each other.

    OUT is a results file (see `gmmfr run`), or a bundle with a recorded output (of several,
    FILE.safetensors:BACKEND).
    """
    from gmmfr.ab_check import compare_saved
    from gmmfr.loading import load_call, load_output
    from gmmfr.report import check_name, write_report
    from gmmfr.tables import print_ab
    from gmmfr.why import diagnose_command

    if len(outputs) > 2:
        raise UsageFailure(f"expected one or two results, got {len(outputs)}")
    if len(set(outputs)) < len(outputs):
        raise UsageFailure(f"{outputs[0]}: named twice")
    if report_file is not None:
        check_name(report_file)
    call = load_call(case, seed)
    saved = {path: load_output(path) for path in outputs}
    with progress_bar("golden", quiet=as_json) as progress:
        report = compare_saved(call, saved, case=case, progress=progress, criterion=criterion)
    if report_file is not None:
        repeat = shlex.join(
            ["gmmfr", "compare", case, *outputs, "--seed", str(seed), "--criterion", criterion]
        )
        write_report(report_file, report, call, repeat)
    if as_json:
        print_json(report.to_json())
    else:
        print_ab(console(), report, call.problem, lambda out: diagnose_command(case, out, seed))
    raise SystemExit(EXIT_CODES[report.verdict])
