"""``gmmfr tile``: what it compares, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Gmmfr = Callable[..., Any]


def pypto_reason() -> str | None:
    import pypto_impl

    return pypto_impl.availability("atlas_a2")


@pytest.mark.parametrize("tiles", ["rows", "rows=3:4", "cube_k=64", "depth=1", "rows=x", ""])
def test_tiles_that_cannot_be_read_are_usage(gmmfr: Gmmfr, tiles: str) -> None:
    outcome = gmmfr("tile", "c5", "--tiles", tiles)
    assert outcome.code == 2
    assert "expected rows=32,cube_m=32:32" in outcome.err


def test_mx_calls_are_not_run(gmmfr: Gmmfr) -> None:
    outcome = gmmfr("tile", "c8", "--json")
    assert outcome.code == 3
    assert "A2/A3" in outcome.json["reason"]


def test_choices_are_compared(gmmfr: Gmmfr) -> None:
    reason = pypto_reason()
    if reason is not None:
        pytest.skip(reason)
    outcome = gmmfr("tile", "c3", "--tiles", "rows=16", "--json")
    assert outcome.code == 0, outcome.out
    estimates = outcome.json["estimates"]
    assert [row["tiles"] for row in estimates] == ["chosen", "rows=16"]
    assert all(row["cycles"] > 0 for row in estimates)
    assert estimates[1]["used"]["rows"] == 16
    assert "compare the figures with each other only" in outcome.json["model"]


def test_illegal_tiles_fail_with_the_rule(gmmfr: Gmmfr) -> None:
    reason = pypto_reason()
    if reason is not None:
        pytest.skip(reason)
    outcome = gmmfr("tile", "c3", "--tiles", "cube_k=48:48", "--json")
    assert outcome.code == 1
    assert "cube_k" in outcome.json["reason"]
