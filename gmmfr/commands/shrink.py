"""``gmmfr shrink``: find a smaller call that fails the same way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from gmmfr.cli_support import FAILURE, NOT_RUN, PASS, UsageFailure, console, print_json

if TYPE_CHECKING:
    from gmmfr.shrinking import Shrunk


@click.command("shrink")
@click.argument("case")
@click.option("-b", "--backend", required=True, help="the backend that gets it wrong")
@click.option(
    "-o", "--out", default="shrunk.safetensors", show_default=True, help="bundle; a .py goes beside it"
)
@click.option("--cpp", is_flag=True, help="also a C++ program against the vendor's API, for a report")
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=120.0, show_default=True, help="time to search"
)
@click.option("--seed", type=int, default=0, help="seed of a named case")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(case: str, backend: str, out: str, cpp: bool, seconds: float, seed: int, as_json: bool) -> None:
    """Find a smaller call than CASE that fails on a backend in the same way.

    Fewer experts, tokens, rows, parts of k and columns, and simpler values; written as a bundle and a script.
    Exit codes: 0 written, 1 CASE does not fail there or is invalid, 3 not run.
    """
    from gmmfr.loading import load_call
    from gmmfr.result import NotRunError
    from gmmfr.shrinking import shrink
    from reference.validator import InvalidProblemError

    if not out.endswith(".safetensors"):
        raise UsageFailure(f"{out}: expected a name that ends in .safetensors")
    call = load_call(case, seed)
    try:
        shrunk = shrink(call, backend, seconds=seconds, report=lambda step: click.echo(step, err=True))
    except NotRunError as error:
        _fail(str(error), as_json, NOT_RUN)
    except InvalidProblemError as error:
        _fail(str(error), as_json, FAILURE)
    if shrunk is None:
        _fail(f"{case} does not fail on {backend}: nothing to shrink", as_json, FAILURE)
    script = Path(out).with_suffix(".py")
    _write(Path(out), script, backend, shrunk)
    program = Path(out).with_suffix(".cpp") if cpp else None
    if program is not None:
        _write_program(program, backend, shrunk)
    _tell(out, script, program, shrunk, as_json)
    raise SystemExit(PASS)


def _fail(reason: str, as_json: bool, code: int) -> NoReturn:
    if as_json:
        print_json({"shrunk": False, "reason": reason})
    else:
        console().print(reason, markup=False, emoji=False)
    raise SystemExit(code)


def _write(path: Path, script: Path, backend: str, shrunk: Shrunk) -> None:
    from gmmfr.shrinking.script import write_script
    from reference.bundle import write_bundle

    try:
        write_bundle(path, shrunk.operands)
        write_script(script, path.name, backend, shrunk)
    except OSError as error:
        raise UsageFailure(f"{path}: {error.strerror or error}") from None


def _write_program(path: Path, backend: str, shrunk: Shrunk) -> None:
    from gmmfr.shrinking.cpp_program import write_program
    from gmmfr.tables import describe_call

    call = describe_call(path.stem, shrunk.operands.problem)
    write_program(path, shrunk.operands, f"{backend}: {shrunk.failure}", call)


def _tell(out: str, script: Path, program: Path | None, shrunk: Shrunk, as_json: bool) -> None:
    from gmmfr.tables import describe_call

    problem = shrunk.operands.problem
    if as_json:
        extents = {name: getattr(problem, name) for name in ("m", "k", "n", "e", "batch")}
        print_json(
            {
                "shrunk": True,
                "bundle": out,
                "script": str(script),
                "program": None if program is None else str(program),
                "bytes": shrunk.nbytes,
                "extents": extents,
                "kind": shrunk.failure.kind,
                "failure": shrunk.failure.words,
                "explanations": [explanation.to_json() for explanation in shrunk.failure.explanations],
                "tried": shrunk.tried,
                "steps": list(shrunk.accepted),
                "complete": shrunk.complete,
            }
        )
        return
    lines = [
        describe_call(out, problem),
        str(shrunk.failure),
        f"{shrunk.tried} calls tried; run it: python {script}",
    ]
    if program is not None:
        lines.append(f"for a report to the vendor: {program}")
    if not shrunk.complete:
        lines.append("time ran out: a longer search (--seconds) may find a smaller one")
    console().print(*lines, sep="\n", markup=False, emoji=False)
