"""``gmmfr simulate``: run a program that sees the simulator as its NPU."""

from __future__ import annotations

import os

import click

from gmmfr.cli_support import UsageFailure
from reference.platforms import PLATFORMS, find_platform, platform_of_soc

_DEFAULT = PLATFORMS["ascend950"].default_soc


@click.command("simulate", context_settings={"ignore_unknown_options": True})
@click.option("--soc", default=_DEFAULT, show_default=True, help="SoC name, or atlas_a2, atlas_a3, ascend950")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def command(soc: str, program: tuple[str, ...]) -> None:
    """Run PROGRAM, a torch_npu script or any client of the vendor's library, on the simulator.

    The program finds the simulator under the vendor's library names, first on the loader's path; an installed
    toolkit is hidden from it.  The exit code is the program's.  Example:

    gmmfr simulate --soc Ascend910B2 -- python your_script.py
    """
    from gmmfr.simulated_device import missing, simulated_environment

    name = _soc_name(soc)
    reason = missing()
    if reason is not None:
        raise UsageFailure(reason)
    try:
        os.execvpe(program[0], list(program), simulated_environment(name))
    except OSError as error:
        raise UsageFailure(f"{program[0]}: {error.strerror or error}") from None


def _soc_name(soc: str) -> str:
    if platform_of_soc(soc) is not None:
        return soc
    try:
        return find_platform(soc).default_soc
    except ValueError:
        known = [name for row in PLATFORMS.values() for name in row.soc_names]
        raise UsageFailure(
            f"--soc: {soc!r} is unknown; known: {', '.join(known)}, {', '.join(PLATFORMS)}"
        ) from None
