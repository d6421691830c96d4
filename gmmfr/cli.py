"""The command ``gmmfr``: a group whose commands are loaded when they are called."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper

import click

import gmmfr
from gmmfr.cli_support import USAGE, UsageFailure

#: Commands in the order of the help, each in the module of its name.
COMMANDS = (
    "ab",
    "run",
    "compare",
    "diagnose",
    "validate",
    "rules",
    "explain",
    "cases",
    "record",
    "replay",
    "shrink",
    "tile",
    "simulate",
    "doctor",
)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"gmmfr.commands.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except UsageFailure as failure:
            click.echo(f"gmmfr {ctx.invoked_subcommand}: {failure}", err=True)
            ctx.exit(USAGE)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(gmmfr.__version__, prog_name="gmmfr")
def cli() -> None:
    """Check, run and compare aclnnGroupedMatmulFinalizeRoutingV3 on any machine.

    CASE is the name of a case (see `gmmfr cases`) or the path of a .safetensors bundle.
    Exit codes: 0 pass, 1 violation or mismatch, 2 usage, 3 not run.
    """


def main() -> None:
    """Entry point of the command ``gmmfr``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal of another encoding gets escapes, no traceback
            stream.reconfigure(errors="backslashreplace")
    try:
        cli(prog_name="gmmfr")
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
