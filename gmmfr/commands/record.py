"""``gmmfr record``: save calls with their operands, outputs, versions and device."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import click

from gmmfr.cli_support import FAILURE, NOT_RUN, UsageFailure, console, print_json
from gmmfr.result import Result


@click.command("record", context_settings={"ignore_unknown_options": True})
@click.argument("target", metavar="CASE|SCRIPT.py")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT ARGUMENTS]")
@click.option("-o", "--out", "path", required=True, help="bundle, or for a script a directory of bundles")
@click.option("-b", "--backend", default="auto", show_default=True, help="where CASE runs")
@click.option(
    "--torch", "with_torch", is_flag=True, help="also record calls of torch_npu's operator in SCRIPT.py"
)
@click.option("--seed", type=int, default=0, help="seed of a named case")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(
    target: str,
    arguments: tuple[str, ...],
    path: str,
    backend: str,
    with_torch: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Run CASE on a backend, or SCRIPT.py, and save every call with its output as a bundle.

    `gmmfr replay` runs such a bundle elsewhere and compares.
    """
    from gmmfr.recording import record

    result: Result | None = None
    if target.endswith(".py"):
        if not Path(target).is_file():
            raise UsageFailure(f"{target}: no such file")
        if with_torch:
            _import_torch_npu()
        with record(path) as recording:
            _run_script(target, arguments)
    else:
        if arguments:
            raise UsageFailure(f"{arguments[0]!r}: arguments are for a script; {target} is a case")
        with record(path) as recording:
            result = _run_case(target, backend, seed)
    bundles = [str(written) for written in recording.paths]
    if as_json:
        print_json({"bundles": bundles, "skipped": recording.skipped})
    else:
        console().print(
            *(bundles or ["no call was recorded"]), *recording.skipped, sep="\n", markup=False, emoji=False
        )
    if not bundles:
        raise SystemExit(FAILURE if result is not None and result.failed else NOT_RUN)


def _run_case(case: str, backend: str, seed: int) -> Result:
    from gmmfr.loading import load_call
    from gmmfr.running import run
    from reference.validator import InvalidProblemError

    call = load_call(case, seed)
    try:
        result = run(call, backend)
    except InvalidProblemError as error:
        click.echo(f"gmmfr record: {error}", err=True)
        raise SystemExit(FAILURE) from None
    if not result.ran:
        click.echo(f"gmmfr record: {result.backend}: {result.reason}", err=True)
    return result


def _import_torch_npu() -> None:
    from aclnn_bindings.torch_support import import_torch

    import_torch()
    try:
        import torch_npu  # noqa: F401
    except ImportError as error:
        raise UsageFailure(f"--torch: {error}") from None


def _run_script(script: str, arguments: tuple[str, ...]) -> None:
    """Run ``script`` as Python does; it prints to standard error, and its exit does not end ours."""
    from contextlib import redirect_stdout

    saved, sys.argv = sys.argv, [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        with redirect_stdout(sys.stderr):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            click.echo(f"gmmfr record: {script} ended with {end.code}", err=True)
    finally:
        sys.argv = saved
        sys.path.remove(str(Path(script).resolve().parent))
