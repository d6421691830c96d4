"""The routings that real models and broken kernels meet, on all three paths, counts and running totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclnn_bindings import DeviceFaultError, grouped_matmul_finalize_routing_v3, simulator
from reference import Operands, golden
from reference.routing_patterns import zipf_counts

#: path -> (k, n); small, but not a multiple of any block size.
EXTENTS = {"mxfp8": (96, 72), "mxfp4": (176, 66), "w4a8": (320, 136)}

#: name -> (m, e, batch, rows per expert, output rows of the assigned rows or None for random ones)
PATTERNS: dict[str, tuple[int, int, int, list[int], list[int] | None]] = {
    "R1 balanced": (32, 4, 8, [8, 8, 8, 8], None),
    "R2 half is tail": (32, 4, 8, [4, 4, 4, 4], None),
    "R3 zipf": (64, 8, 16, zipf_counts(64, 8), None),
    "R4 heavy first": (16, 4, 8, [13, 1, 1, 1], None),
    "R4 heavy last": (16, 4, 8, [1, 1, 1, 13], None),
    "R5 all on the first": (12, 3, 6, [12, 0, 0], None),
    "R5 all on the middle": (12, 3, 6, [0, 12, 0], None),
    "R5 all on the last": (12, 3, 6, [0, 0, 12], None),
    "R6 all zero": (8, 4, 4, [0, 0, 0, 0], None),
    "R7 all to token 0": (24, 3, 6, [8, 8, 8], [0] * 24),
    "R8 some tokens never": (
        20,
        4,
        10,
        [7, 0, 5, 8],
        [0, 3, 7, 3, 9, 0, 3] + [7] * 5 + [9, 0, 3] * 2 + [1, 1],
    ),
    "R9 tile edges": (507, 10, 64, [1, 15, 16, 17, 31, 32, 33, 127, 128, 107], None),
    "R10 duplicates in one expert": (12, 2, 4, [6, 6], [1, 1, 1, 2, 2, 1, 3, 3, 0, 3, 0, 3]),
}


@pytest.mark.parametrize("path", EXTENTS)
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(recipe: Any, agrees: Callable[[Operands], None], name: str, path: str) -> None:
    m, e, batch, counts, rows = PATTERNS[name]
    k, n = EXTENTS[path]
    totals = []
    for kind in (1, 0):
        operands = recipe(
            path, m, k, n, e, batch, counts, rows=rows, options={"group_list_type": kind}
        ).make()
        agrees(operands)
        totals.append(golden(operands).out)
    np.testing.assert_array_equal(*totals)


@pytest.mark.parametrize("e", [1, 3, 9, 14, 21, 22])
@pytest.mark.parametrize("path", EXTENTS)
def test_expert_counts_that_are_no_power_of_two(
    recipe: Any, agrees: Callable[[Operands], None], e: int, path: str
) -> None:
    k, n = EXTENTS[path]
    counts = [i % 3 for i in range(e)]
    agrees(recipe(path, max(1, sum(counts)), k, n, e, 1, counts).make())


def test_r9_at_tile_edges_of_a_large_k(recipe: Any, agrees: Callable[[Operands], None]) -> None:
    counts = [1, 15, 16, 17, 31, 32, 33, 127, 128, 129]
    agrees(recipe("mxfp8", 529, 1056, 264, 10, 64, counts, options={"transpose_x2": True}).make())


def test_a_shared_offset_that_wraps_past_phase_one_is_a_fault(recipe: Any) -> None:
    operands = recipe("w4a8", 8, 320, 136, 2, 4, [4, 4], options={"shared_rows": 1}).make()
    call = {**operands.arrays, "library": simulator("Ascend910B2"), "batch": 4, "validate": "off"}
    for _ in range(2):  # also where the call is repeated
        with pytest.raises(DeviceFaultError, match=f"sharedInputOffset {2**63 - 1}: expected at most 3"):
            grouped_matmul_finalize_routing_v3(**call, shared_input_offset=2**63 - 1)
    grouped_matmul_finalize_routing_v3(**call, shared_input_offset=3)
