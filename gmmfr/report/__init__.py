"""The report of an A/B check: one self-contained page, and the same content as JSON beside it."""

from __future__ import annotations

import json
from pathlib import Path

from gmmfr.ab_check import AbReport
from gmmfr.cli_support import UsageFailure
from gmmfr.report.content import collect
from gmmfr.report.page import render
from reference.operands import Operands

__all__ = ["check_name", "write_report"]


def check_name(path: str) -> None:
    """Refuse a report name that does not end in .html, or whose directory does not exist."""
    if not path.endswith(".html"):
        raise UsageFailure(f"{path}: expected a name that ends in .html")
    if not Path(path).parent.is_dir():
        raise UsageFailure(f"{path}: directory {Path(path).parent} does not exist")


def write_report(path: str, report: AbReport, call: Operands, command: str) -> None:
    """Write ``path`` (ends in .html) and its twin with the ending .json.

    ``command`` is the command line that repeats the check.  Raises :class:`UsageFailure` where the files
    cannot be written.
    """
    check_name(path)
    content = collect(report, call, command)
    twin = Path(path).with_suffix(".json")
    try:
        Path(path).write_text(render(content), encoding="utf-8")
        twin.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise UsageFailure(f"{path}: {error.strerror or error}") from None
