"""PyPTO's cost model on the W4A8 kernels: A2/A3 only, for comparing tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pypto_impl import KernelError, RefusedError, estimate, run
from pypto_impl.cost import read_summary
from pypto_impl.tiling import Tiles
from reference.operands import Operands

Maker = Callable[..., Operands]
TILES = Tiles(16, (16, 16), (64, 64), (32, 32), (16, 32))


def test_a_summary_is_read() -> None:
    printed = "----\nAICore End-to-End Time: 61.81\nAICore Utilization:     1.51%\n----\n"
    found = read_summary(printed, TILES)
    assert (found.microseconds, found.utilisation, found.tiles) == (61.81, 1.51, TILES)


def test_no_summary_is_an_error() -> None:
    with pytest.raises(KernelError, match="PyPTO's cost model printed no summary"):
        read_summary("Start time: 2026\n", TILES)


def test_ascend_950_is_refused(make_mx: Maker) -> None:
    with pytest.raises(RefusedError, match="its cost model is that of A2/A3 and has no MX product"):
        estimate(make_mx([2]))


@pytest.mark.usefixtures("interpreter")
def test_choices_of_tiles_are_compared(make_w4a8: Maker, expect: Callable[..., Any]) -> None:
    """The model takes the override, and leaves the interpreter usable."""
    operands = make_w4a8([16, 16], k=256, n=128)
    chosen, small = estimate(operands), estimate(operands, tiles={"cube_k": (64, 64), "cube_n": (32, 32)})
    assert 0 < chosen.microseconds < small.microseconds
    assert 0 < chosen.utilisation <= 100
    assert (chosen.tiles.cube_k, small.tiles.cube_k) == ((256, 256), (64, 64))
    expect(operands).assert_close(run(operands, on="interpreter").out)
