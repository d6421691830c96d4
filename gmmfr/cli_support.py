"""What the commands share: exit codes, JSON on standard output, people's output through rich."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PASS, FAILURE, USAGE, NOT_RUN = 0, 1, 2, 3
EXIT_CODES = {"PASS": PASS, "FAIL": FAILURE, "INVALID": FAILURE, "NOT RUN": NOT_RUN}


class UsageFailure(ValueError):  # noqa: N818 - it ends a command, it is no error of ours
    """A wrong call of a command, an unreadable file or an unknown name: message on stderr, exit code 2."""


def print_json(value: Any) -> None:
    """Print one JSON document, and nothing else, on standard output; in ASCII where that is not UTF-8."""
    unicode = "utf" in (sys.stdout.encoding or "").lower()
    print(json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False))


@contextmanager
def spare_stdout(active: bool) -> Iterator[None]:
    """With ``active``, what runs in this block and prints, from Python or from C, prints on standard error.

    Under ``--json`` standard output is for our document alone, whatever a user's kernel or a library says.
    """
    if not active:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C still buffers belongs to the block
        os.dup2(kept, 1)
        os.close(kept)


def console(width: int = 1000) -> Console:
    """Rich's console on standard output; ``width`` columns where that is no terminal."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else width)


def print_table(to: Console, table: Table) -> None:
    """Print ``table`` without the blanks that fill its lines up to the width of the widest."""
    from rich.text import Text

    for segments in to.render_lines(table, pad=False):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        line.rstrip()
        to.print(line, soft_wrap=True)


def judging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands that judge results: ``criterion`` and ``report_file``."""
    import click

    criterion = click.option(
        "--criterion",
        type=click.Choice(["bound", "rtol"]),
        default="bound",
        show_default=True,
        help="what decides: the bound of each sum, or rtol = atol = 1e-3",
    )
    report = click.option(
        "--report", "report_file", metavar="FILE.html", default=None, help="write a page, and FILE.json"
    )
    return criterion(report(command))


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error for long work, on a terminal only: yields its ``(done, total)`` callback."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
