"""What to do with a call that the library refuses although the rules accept it: save it, report it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gmmfr.result import Result


def is_refusal(error: Exception) -> bool:
    """Whether ``error`` says that phase 1 refused the arguments."""
    from aclnn_bindings import AclError
    from reference.status import REFUSALS

    return isinstance(error, AclError) and error.code in REFUSALS


def say_how_to_report(case: str, seed: int, results: Iterable[Result]) -> None:
    """One line on standard error where the library of a backend refused CASE: how to save it for a report."""
    import click

    refusing = [result.backend for result in results if result.refused]
    if not refusing:
        return
    begin = f"{', '.join(refusing)} refused a call that the rules accept; to report it, "
    command = ["gmmfr", "cases", "--write", case, f"{case}.safetensors"]
    command += ["--seed", str(seed)] if seed else []
    saved = case.endswith(".safetensors")
    click.echo(begin + (f"send {case}" if saved else f"save it: {shlex.join(command)}"), err=True)
