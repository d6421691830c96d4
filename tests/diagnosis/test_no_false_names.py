"""A right result is never called wrong, and a wrong one that no mistake explains gets no name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reference import Operands, diagnose, golden
from reference.cases import Case

#: Random problems per run; .ci/long sets more.
EXAMPLES = int(os.environ.get("GMMFR_EXAMPLES", "200"))
Kernel = Callable[..., Any]


def random_call(seed: int) -> Operands:
    """A small call of any path with random shapes and options."""
    rng = np.random.default_rng(seed)
    e, batch = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    options: dict[str, Any] = {"group_list_type": int(rng.integers(0, 2))}
    counts = rng.integers(0, 5, e)
    m = int(counts.sum() + rng.integers(0, 3))
    options["counts"] = tuple(counts.tolist())
    if rng.random() < 0.5:
        rows = int(rng.integers(1, batch + 1))
        offset = int(rng.integers(0, batch - rows + 1))
        options |= {"shared_rows": rows, "shared_offset": offset, "shared_weight": float(rng.normal())}
    path = ("w4a8", "mxfp8", "mxfp4")[seed % 3]
    if path == "w4a8":
        k, n = 64 * int(rng.integers(3, 6)), 8 * int(rng.integers(9, 14))
        options["offset"] = bool(rng.integers(0, 2))
        return Case("random", path, m, k, n, e, batch, "", "atlas_a2", options).make(seed)
    k, n = 32 * int(rng.integers(1, 9)), 2 * int(rng.integers(4, 40))
    options |= {"bias": bool(rng.integers(0, 2)), "transpose_x2": bool(rng.integers(0, 2))}
    return Case("random", path, m, k, n, e, batch, "", "ascend950", options).make(seed)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_right_results_pass_and_wrong_elements_get_no_name(plain_kernel: Kernel, seed: int) -> None:
    call = random_call(seed)
    reference = golden(call, magnitudes=True)
    out = plain_kernel(call)
    assert diagnose(call, out, reference=reference).verdict == "PASS"
    rng = np.random.default_rng(seed)
    row, column = int(rng.integers(0, out.shape[0])), int(rng.integers(0, out.shape[1]))
    out[row, column] = out[row, column] * 1.5 + np.float32(1e-3) + 0.01 * np.abs(out).max()
    diagnosis = diagnose(call, out, reference=reference)
    assert diagnosis.verdict == "FAIL"
    assert [str(explanation) for explanation in diagnosis.explanations] == []
