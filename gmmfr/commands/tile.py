"""``gmmfr tile``: compare tile choices of the W4A8 kernel with PyPTO's cost model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gmmfr.cli_support import FAILURE, NOT_RUN, UsageFailure, console, print_json, print_table

if TYPE_CHECKING:
    from pypto_impl import Estimate

_RELATIVE = "PyPTO's model of A2/A3, not checked against silicon: compare the figures with each other only"


@click.command("tile")
@click.argument("case")
@click.option(
    "--tiles", "choices", multiple=True, metavar="rows=32,cube_k=128:256", help="a choice; give several"
)
@click.option("--seed", type=int, default=0, help="seed of a named case")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
def command(case: str, choices: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Compare tile choices of our W4A8 kernel for CASE with PyPTO's cost model.

    The tiles that the kernel would take come first. rows is one number; cube_m, cube_k, cube_n (L0:L1) and
    vector (rows:columns) are pairs. The model is relative: it says which choice is faster, not how fast.
    """
    from gmmfr.loading import load_call
    from pypto_impl import KernelError, NotAvailableError, RefusedError, TilingError, estimate

    call = load_call(case, seed)
    wanted: list[dict[str, Any] | None] = [None, *(read_tiles(choice) for choice in choices)]
    try:
        figures = [estimate(call, tiles=tiles) for tiles in wanted]
    except (NotAvailableError, RefusedError) as error:
        _report_failure("NOT RUN", str(error), as_json)
        raise SystemExit(NOT_RUN) from None
    except (TilingError, KernelError) as error:
        _report_failure("FAILED", str(error), as_json)
        raise SystemExit(FAILURE) from None
    names = ["chosen", *choices]
    if as_json:
        rows = [{"tiles": name, **_fields(figure)} for name, figure in zip(names, figures, strict=True)]
        print_json({"model": _RELATIVE, "estimates": rows})
    else:
        _print(names, figures)


def read_tiles(text: str) -> dict[str, Any]:
    """``rows=32,cube_k=128:256`` as the kernel's tile override."""
    tiles: dict[str, Any] = {}
    for part in text.split(","):
        key, separator, value = part.partition("=")
        numbers = value.split(":")
        expected = 1 if key == "rows" else 2
        known = key in ("rows", "cube_m", "cube_k", "cube_n", "vector")
        if not (separator and known and len(numbers) == expected and all(n.isdigit() for n in numbers)):
            raise UsageFailure(
                f"--tiles {text}: expected rows=32,cube_m=32:32,cube_k=128:256,…; got {part!r}"
            )
        tiles[key] = int(value) if expected == 1 else tuple(int(n) for n in numbers)
    return tiles


def _fields(figure: Estimate) -> dict[str, Any]:
    return {"cycles": figure.cycles, "tasks": figure.tasks, "used": vars(figure.tiles)}


def _report_failure(verdict: str, reason: str, as_json: bool) -> None:
    if as_json:
        print_json({"model": _RELATIVE, "estimates": [], "reason": reason})
    else:
        console().print(f"{verdict}: {reason}", markup=False)


def _print(names: list[str], figures: list[Estimate]) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("tiles", "cycles", "× chosen", "tasks"):
        table.add_column(title, justify="left" if title == "tiles" else "right")
    for name, figure in zip(names, figures, strict=True):
        ratio = figure.cycles / figures[0].cycles
        table.add_row(name, str(figure.cycles), f"{ratio:.2f}", str(figure.tasks))
    out = console()
    print_table(out, table)
    out.print(_RELATIVE, style="dim")
