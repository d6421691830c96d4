"""``gmmfr run``: compute one call on one backend and save the output."""

from __future__ import annotations

from pathlib import Path

import click

from gmmfr.cli_support import (
    FAILURE,
    NOT_RUN,
    UsageFailure,
    console,
    print_json,
    progress_bar,
    spare_stdout,
)
from gmmfr.result import Result


@click.command("run")
@click.argument("case")
@click.option(
    "--backend",
    "-b",
    required=True,
    help="golden, simulator, aclnn, pypto, torch_npu, auto or file.py:function",
)
@click.option(
    "--out", "-o", "path", required=True, type=click.Path(dir_okay=False), help="results file to write"
)
@click.option(
    "--precision", type=click.Choice(["float64", "float32"]), default="float64", help="of the golden"
)
@click.option("--seed", type=int, default=0, help="seed of a named case")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(case: str, backend: str, path: str, precision: str, seed: int, as_json: bool) -> None:
    """Compute CASE on one backend and write tensor `out` (float32, batch × n) to FILE."""
    from gmmfr.loading import load_call
    from gmmfr.refused_call import say_how_to_report
    from gmmfr.running import run
    from reference.validator import InvalidProblemError

    call = load_call(case, seed)
    try:
        with spare_stdout(as_json), progress_bar(backend, quiet=as_json) as progress:
            result = run(call, backend, precision=precision, progress=progress)
    except InvalidProblemError as error:
        result = Result(backend, reason=str(error))
        _report(result, as_json)
        raise SystemExit(FAILURE) from None
    if result.ran:
        _write(Path(path), result)
    _report(result, as_json)
    say_how_to_report(case, seed, [result])
    if not result.ran:
        raise SystemExit(FAILURE if result.failed else NOT_RUN)


def _write(path: Path, result: Result) -> None:
    import numpy as np

    from reference.safetensors_file import write_tensors

    with np.errstate(over="ignore"):
        out = np.ascontiguousarray(result.out.astype(np.float32, copy=False))
    try:
        write_tensors(path, {"out": out}, {"backend": result.backend, "device": result.device or ""})
    except OSError as error:
        raise UsageFailure(f"{path}: {error.strerror or error}") from None


def _report(result: Result, as_json: bool) -> None:
    if as_json:
        print_json({"backend": result.backend, **result.to_json()})
    elif result.ran:
        console().print(
            f"{result.backend} ran on {result.device} in {result.seconds:.3g} s",
            *result.notes,
            sep="\n",
            markup=False,
        )
    else:
        console().print(
            f"{result.backend}: {'FAILED' if result.failed else 'NOT RUN'}: {result.cause}", markup=False
        )
