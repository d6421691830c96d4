"""What people read of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from gmmfr.cli_support import print_table
from gmmfr.replaying import ReplayReport
from gmmfr.tables import Why, print_ab
from reference.problem import Problem

if TYPE_CHECKING:
    from rich.console import Console


def print_replay(console: Console, report: ReplayReport, problem: Problem, why: Why) -> None:
    """Print where both ran, how they compare, the experts that differ, what changed, the verdict in words."""
    print_ab(console, report.ab, problem, why)
    if report.experts:
        print_table(console, _experts_table(report))
    for name, (then, now) in report.changed_versions.items():
        console.print(
            f"{name}: {then or 'not there'} when recorded, {now or 'not there'} now",
            markup=False,
            emoji=False,
        )
    console.print(report.message, markup=False, emoji=False, style="bold")


def _experts_table(report: ReplayReport) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("expert", "rows", "tokens", "tokens differ", "mismatches", "worst / bound"):
        table.add_column(title, justify="right")
    for share in report.experts:
        cells = (share.expert, share.rows, share.tokens, share.tokens_differ, share.mismatches)
        table.add_row(*map(str, cells), f"{share.max_ratio:.3g}")
    return table
