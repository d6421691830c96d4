"""``gmmfr record``: save calls with their operands, outputs, versions and device."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gmmfr.cli_support import FAILURE, NOT_RUN, PASS, UsageFailure, console, print_json, spare_stdout

if TYPE_CHECKING:
    from gmmfr.recording import Recording


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

    `gmmfr replay` runs such a bundle elsewhere and compares.  Of a call that fails the operands are saved,
    with the error.  Exit codes: 0 recorded, 1 CASE or SCRIPT.py failed, 3 no call was recorded.
    """
    from gmmfr.recording import record

    if target.endswith(".py"):
        if not Path(target).is_file():
            raise UsageFailure(f"{target}: no such file")
        if with_torch:
            _import_torch_npu()
        with record(path) as recording:
            code = _run_script(target, arguments)
    else:
        if arguments:
            raise UsageFailure(f"{arguments[0]!r}: arguments are for a script; {target} is a case")
        if Path(path).suffix not in ("", ".safetensors"):
            raise UsageFailure(f"{path}: expected a name that ends in .safetensors, or a directory")
        with record(path) as recording, spare_stdout(as_json):
            code = _run_case(recording, target, backend, seed)
    _report(recording, as_json)
    if not recording.paths:
        code = code or NOT_RUN
    raise SystemExit(code)


def _report(recording: Recording, as_json: bool) -> None:
    bundles = [str(written) for written in recording.paths]
    if as_json:
        failed = [{"bundle": str(path), "error": error} for path, error in recording.failed.items()]
        print_json({"bundles": bundles, "failed": failed, "skipped": recording.skipped})
        return
    lines = [
        f"{path}: the operands of a call that failed: {recording.failed[path]}"
        if path in recording.failed
        else str(path)
        for path in recording.paths
    ]
    lines = [*(lines or ["no call was recorded"]), *recording.skipped]
    console().print(*lines, sep="\n", markup=False, emoji=False)


def _run_case(recording: Recording, case: str, backend: str, seed: int) -> int:
    """Run CASE; the exit code that this alone gives."""
    from gmmfr.loading import load_call
    from gmmfr.running import run
    from reference.validator import InvalidProblemError

    call = load_call(case, seed)
    try:
        result = run(call, backend)
    except InvalidProblemError as error:
        click.echo(f"gmmfr record: {error}", err=True)
        recording.skipped.append(str(error))
        return FAILURE
    if not result.ran:
        click.echo(f"gmmfr record: {result.backend}: {result.reason}", err=True)
    return FAILURE if result.failed else PASS if result.ran else NOT_RUN


def _import_torch_npu() -> None:
    from aclnn_bindings.torch_support import import_torch

    import_torch()
    try:
        import torch_npu  # noqa: F401
    except ImportError as error:
        raise UsageFailure(f"--torch: {error}") from None


def _run_script(script: str, arguments: tuple[str, ...]) -> int:
    """Run ``script`` as Python does; it prints to standard error, and its exit does not end ours.

    Gives 1 where it ended with an exception, said in one line.
    """
    from contextlib import redirect_stdout

    saved, sys.argv = sys.argv, [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        with redirect_stdout(sys.stderr):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            click.echo(f"gmmfr record: {script} ended with {end.code}", err=True)
    except Exception as error:  # the user's program may raise anything
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == script]
        place = f"{script}, line {lines[-1]}" if lines else script
        click.echo(f"gmmfr record: {place}: {type(error).__name__}: {error}", err=True)
        return FAILURE
    finally:
        sys.argv = saved
        sys.path.remove(str(Path(script).resolve().parent))
    return PASS
