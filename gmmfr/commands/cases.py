"""``gmmfr cases``: list the named cases, or write one as a bundle."""

from __future__ import annotations

import click

from gmmfr.cli_support import UsageFailure, console, print_json, print_table


@click.command("cases")
@click.option("--write", nargs=2, metavar="NAME FILE", default=None, help="write a case as a bundle")
@click.option("--seed", type=int, default=0, help="seed of the operands")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(write: tuple[str, str] | None, seed: int, as_json: bool) -> None:
    """List the named cases, or write one as a bundle."""
    if write is not None:
        _write(*write, seed)
        if as_json:
            print_json({"case": write[0].lower(), "file": write[1]})
        return
    from reference.cases import CASES

    keys = ("name", "path", "platform", "m", "k", "n", "e", "batch", "note")
    rows = [{key: getattr(case, key) for key in keys} for case in CASES.values()]
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for key in keys:
        table.add_column(key, justify="right" if key in "mkne" or key == "batch" else "left")
    for row in rows:
        table.add_row(*(str(row[key]) for key in keys))
    print_table(console(), table)


def _write(name: str, path: str, seed: int) -> None:
    from gmmfr.loading import load_call
    from reference.bundle import write_bundle

    if not path.endswith(".safetensors"):
        raise UsageFailure(f"{path}: expected a name that ends in .safetensors")
    call = load_call(name, seed)
    try:
        write_bundle(path, call)
    except OSError as error:
        raise UsageFailure(f"{path}: {error.strerror or error}") from None
