"""A call cut into runs of experts gives what the whole call gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pypto_impl import chunks, run
from reference.operands import Operands

pytestmark = pytest.mark.usefixtures("interpreter")


@pytest.mark.parametrize("counts", [[3, 0, 5, 2], [0, 0, 0, 4], [4, 0, 0, 0], [0, 0, 0, 0]])
def test_runs_add_up(
    path: Any,
    expect: Callable[..., Any],
    counts: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "BUDGET", 0)
    operands = path(counts, m=12, batch=5, shared=2, shared_input_offset=3)
    expect(operands).assert_close(path.run(operands).out)


def test_packed_weights_are_cut_too(
    make_w4a8: Callable[..., Operands], expect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "BUDGET", 0)
    operands = make_w4a8([3, 0, 5, 2], m=12, batch=5, shared=2, offset=True)
    expect(operands).assert_close(run(operands, on="interpreter", unpack="kernel").out)


def test_all_runs_share_one_compile(
    make_mx: Callable[..., Operands], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "BUDGET", 0)
    operands = make_mx([1, 2, 3, 4, 5], n=40, batch=3)
    before = run(make_mx([1]), on="interpreter").statistics
    after = run(operands, on="interpreter").statistics
    assert after["compiles"] - before["compiles"] == 1
    assert after["runs"] - before["runs"] == 5
