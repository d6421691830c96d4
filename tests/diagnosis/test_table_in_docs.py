"""The table of mistakes in docs/comparison.md holds what is true."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import compare, diagnose, golden, make_case

DOCS = Path(__file__).parents[2] / "docs" / "comparison.md"
HEAD = "| mistake | changes | caught | named | alone | name |\n|---|--:|--:|--:|--:|---|\n"
Kernel = Callable[..., Any]


@pytest.mark.long
def test_table_of_mistakes(
    plain_kernel: Kernel, all_mistakes: dict[str, str], small_cases: list[str]
) -> None:
    counts = {mistake: [0, 0, 0, 0] for mistake in all_mistakes}
    for name in small_cases:
        call = make_case(name)
        reference, clean = golden(call, magnitudes=True), plain_kernel(call)
        for mistake, title in all_mistakes.items():
            out = plain_kernel(call, mistake)
            if out is None or np.array_equal(out, clean, equal_nan=True):
                continue
            counts[mistake][0] += 1
            if compare(out, reference.out, reference).verdict == "FAIL":
                names = [found.name for found in diagnose(call, out, reference=reference).explanations]
                for place, seen in enumerate((True, title in names, names == [title]), start=1):
                    counts[mistake][place] += seen
    rows = [
        f"| {mistake} | {' | '.join(map(str, counts[mistake]))} | `{title}` |"
        for mistake, title in all_mistakes.items()
    ]
    totals = [sum(column) for column in zip(*counts.values(), strict=True)]
    table = HEAD + "\n".join([*rows, f"| **all** | {' | '.join(map(str, totals))} | |"])
    assert table in DOCS.read_text(), f"\n{table}\n"
