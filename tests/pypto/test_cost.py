"""PyPTO's cost model on the W4A8 kernels: A2/A3 only, for comparing tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pypto_impl import Estimate, KernelError, RefusedError, estimate, run
from pypto_impl.cost import read_report
from pypto_impl.tiling import Tiles
from reference.operands import Operands

Maker = Callable[..., Operands]
TILES = Tiles(16, (16, 16), (64, 64), (32, 32), (16, 32))


def test_a_report_is_read() -> None:
    report = "Total Cycles.....:    195109\nTotal Steps..:  4190\nTotal Submit Tasks....:       190\n"
    assert read_report(report, TILES) == Estimate(195109, 190, TILES)


def test_no_report_is_an_error() -> None:
    with pytest.raises(KernelError, match="PyPTO's cost model wrote no report"):
        read_report("Total Steps....: 4190\n", TILES)


def test_ascend_950_is_refused(make_mx: Maker) -> None:
    with pytest.raises(RefusedError, match="its cost model is that of A2/A3 and has no MX product"):
        estimate(make_mx([2]))


@pytest.mark.usefixtures("interpreter")
def test_choices_of_tiles_are_compared(make_w4a8: Maker, expect: Callable[..., Any]) -> None:
    """The model takes the override, and leaves the interpreter usable."""
    operands = make_w4a8([16, 16], k=256, n=128)
    chosen, small = estimate(operands), estimate(operands, tiles={"cube_k": (64, 64), "cube_n": (32, 32)})
    assert 0 < chosen.cycles < small.cycles
    assert 0 < chosen.tasks < small.tasks
    assert (chosen.tiles.cube_k, small.tiles.cube_k) == ((256, 256), (64, 64))
    expect(operands).assert_close(run(operands, on="interpreter").out)
