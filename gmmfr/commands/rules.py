"""``gmmfr rules``: look up the validator's rules."""

from __future__ import annotations

import click

from gmmfr.cli_support import UsageFailure, console, print_json, print_table

#: Columns of the table where standard output is no terminal.
_WIDTH = 110


@click.command("rules")
@click.argument("rule_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(rule_id: str | None, as_json: bool) -> None:
    """List the validator's rules, or show the rows of the rule called ID."""
    from reference.rules import RULES
    from reference.rules.table import rule_rows

    rows = rule_rows(RULES)
    if rule_id is not None:
        rows = [row for row in rows if row["rule"] == rule_id.lower()]
        if not rows:
            raise UsageFailure(f"rule {rule_id!r} is unknown; {_similar(rule_id)}")
    if as_json:
        print_json(rows)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    keys = ("rule", "level", "status")
    for key in keys:
        table.add_column(key, no_wrap=True)
    table.add_column("title, where it holds, and who says so", overflow="fold")
    for row in rows:
        said = Text(f"{row['title']}\n{row['paths']}\n").append(str(row["source"]), style="dim")
        table.add_row(*(Text(str(row[key] or "")) for key in keys), said)
    print_table(console(_WIDTH), table)


def _similar(rule_id: str) -> str:
    from difflib import get_close_matches

    from reference.rules import RULES

    near = get_close_matches(rule_id.lower(), {rule.id for rule in RULES}, n=3, cutoff=0.4)
    return f"near: {', '.join(near)}" if near else "gmmfr rules lists them all"
