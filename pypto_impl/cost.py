"""What PyPTO's cost model says about a choice of tiles: for comparing choices on A2/A3, and for nothing
else.

The model of PyPTO 0.2.0 is the one of A2/A3 whatever platform it is asked about, it cannot cost an MX
product, and it has not been checked against silicon here. Its cycles are relative.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pypto_impl.capability import refusal
from pypto_impl.environment import availability
from pypto_impl.failures import KernelError
from pypto_impl.kernel_run import NotAvailableError, RefusedError, TileOverride, Unpack, prepare
from pypto_impl.session import session
from pypto_impl.tiling import Tiles
from reference.operands import Operands

CYCLES = re.compile(r"^Total Cycles\.*:\s*(\d+)$", re.MULTILINE)
TASKS = re.compile(r"^Total Submit Tasks\.*:\s*(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Estimate:
    """Modelled cycles of the whole call, the tasks that it was cut into, and the tiles they belong to."""

    cycles: int
    tasks: int
    tiles: Tiles


def estimate(
    operands: Operands, *, tiles: TileOverride = None, timeout: float = 600.0, unpack: Unpack = "host"
) -> Estimate:
    """The cost model's figures for a W4A8 call with the chosen tiles, ``tiles`` in their place where given.

    Raises what :func:`pypto_impl.run` raises, and :class:`RefusedError` on Ascend 950.
    """
    problem = operands.problem
    if problem.platform_row.pypto_arch != "DAV_2201":
        raise RefusedError("PyPTO: its cost model is that of A2/A3 and has no MX product")
    if reason := refusal(problem):
        raise RefusedError(f"PyPTO: {reason}")
    if reason := availability(problem.platform):
        raise NotAvailableError(reason)
    call = prepare(operands, tiles=tiles, unpack=unpack)
    return read_report(session("DAV_2201").estimate(call, timeout), call.spec.tiles)


def read_report(report: str, tiles: Tiles) -> Estimate:
    """The figures in the report that the cost model wrote."""
    cycles, tasks = CYCLES.search(report), TASKS.search(report)
    if cycles is None or tasks is None:
        raise KernelError("PyPTO's cost model wrote no report", "running the cost model")
    return Estimate(int(cycles[1]), int(tasks[1]), tiles)
