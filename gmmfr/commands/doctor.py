"""``gmmfr doctor``: what is installed and what of it does not fit, which backends run here or why not."""

from __future__ import annotations

import click

from gmmfr.cli_support import console, print_json, print_table


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(as_json: bool) -> None:
    """Say what is installed, what of it does not fit, and which backends run here or why they do not."""
    from gmmfr.machine import examine

    findings = examine()
    if as_json:
        print_json(findings)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("backend", "platforms", "runs here"):
        table.add_column(title)
    verdicts: dict[tuple[str, str | None], list[str]] = {}
    for row in findings["backends"]:
        verdicts.setdefault((row["backend"], row["reason"]), []).append(row["platform"])
    for (backend, reason), platforms in verdicts.items():
        mark = Text("yes", style="green") if reason is None else Text(f"no: {reason}", style="yellow")
        table.add_row(backend, ", ".join(platforms), mark)
    out = console()
    for section in ("system", "packages", "vendor", "tools", "environment"):
        out.print(section, style="bold")
        for name, value in findings[section].items():
            out.print(f"  {name}: {value if value is not None else 'not found'}", markup=False)
    out.print("libraries searched", style="bold")
    for line in findings["libraries"]:
        out.print(f"  {line}", markup=False)
    print_table(out, table)
    out.print("what does not fit", style="bold")
    for misfit in findings["misfits"]:
        out.print("  {what} {found}: {fits}; {remedy}".format(**misfit), markup=False, style="yellow")
    if not findings["misfits"]:
        out.print("  nothing, by the rules that have a public source")
