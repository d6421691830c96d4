"""Random and patterned calls for golden and simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from reference import Operands, compare, golden
from reference.case_data import mx_operands, w4a8_operands
from reference.cases import Case

ELEMENTS = {"mxfp8": "float8_e4m3fn", "mxfp4": "float4_e2m1fn"}


@dataclass(frozen=True)
class Recipe:
    """A call to make: its path, extents, rows per expert, seed, and what the generator takes beside them."""

    path: str
    m: int
    k: int
    n: int
    e: int
    batch: int
    counts: Sequence[int]
    seed: int = 0
    rows: Sequence[int] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Operands:
        """The operands; ``rows`` replaces the row index of the assigned rows."""
        platform = "atlas_a2" if self.path == "w4a8" else "ascend950"
        options = {**self.options, "counts": tuple(self.counts)}
        case = Case("recipe", self.path, self.m, self.k, self.n, self.e, self.batch, "", platform, options)
        generate = w4a8_operands if self.path == "w4a8" else mx_operands
        operands = generate(np.random.default_rng(self.seed), case)
        if self.rows is None:
            return operands
        row_index = operands.arrays["row_index"].copy()
        row_index[: len(self.rows)] = self.rows
        return Operands(operands.problem, {**operands.arrays, "row_index": row_index})


def check_on_simulator(operands: Operands) -> None:
    """The simulator's result is within the bound of the golden's."""
    from gmmfr.backends import SimulatorBackend

    exact = golden(operands, magnitudes=True)
    result = SimulatorBackend().run(operands)
    comparison = compare(result.out, exact.out, exact, a_name="simulator", b_name="golden")
    assert comparison.verdict == "PASS", comparison


@pytest.fixture
def recipe() -> type[Recipe]:
    """The recipe of a call."""
    return Recipe


@pytest.fixture
def agrees() -> Callable[[Operands], None]:
    """Assert that golden and simulator agree."""
    return check_on_simulator
