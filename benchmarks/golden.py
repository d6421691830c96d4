"""The golden beside goldens as they are usually written: seconds, and how many times faster.

Run from the repository, torch installed: ``python benchmarks/golden.py [--json] [--small]``.
"""

from __future__ import annotations

import sys

import numpy as np
from machine import main, seconds
from plain_torch import integer_matmul, mxfp8_golden, torch_operands

from reference import compare, golden, make_case
from reference.golden_w4a8 import integer_products

CASES = ("case3",) if "--small" in sys.argv else ("case1", "case2", "case3", "case4")


def measure_case(name: str) -> dict[str, float]:
    """One MXFP8 case: the plain torch golden, ours in both precisions and with the comparator's bounds."""
    operands = make_case(name)
    tensors = torch_operands(operands)
    exact = golden(operands, magnitudes=True)
    plain = mxfp8_golden(operands, tensors).numpy()
    assert compare(plain, exact.out, exact).verdict == "PASS"  # the baseline computes the same thing
    ours = {
        "plain torch": seconds(lambda: mxfp8_golden(operands, tensors), 3),
        "float32": seconds(lambda: golden(operands, "float32"), 3),
        "float64": seconds(lambda: golden(operands), 3),
        "float64 with bounds": seconds(lambda: golden(operands, magnitudes=True), 3),
    }
    figures = {f"{name}: golden, {way}, s": figure for way, figure in ours.items()}
    figures[f"{name}: golden, float32, times faster than plain torch"] = ours["plain torch"] / ours["float32"]
    figures[f"{name}: golden, float64, times faster than plain torch"] = ours["plain torch"] / ours["float64"]
    return figures


def measure_integers() -> dict[str, float]:
    """One expert of W4A8 (72 × 2048 × 7168): NumPy's integer matmul, and ours."""
    operands = make_case("w4a8_doc")
    x, words = operands.arrays["x1"][:72], operands.arrays["x2"][0]
    ours, _ = integer_products(words, x.astype(np.float32), None)
    np.testing.assert_array_equal(ours, integer_matmul(x, words))
    slow = seconds(lambda: integer_matmul(x, words), 1)
    fast = seconds(lambda: integer_products(words, x.astype(np.float32), None))
    return {
        "W4A8 expert: integer matmul, s": slow,
        "W4A8 expert: golden, s": fast,
        "W4A8 expert: times faster than integer matmul": slow / fast,
    }


def measure() -> dict[str, float]:
    """All figures by name."""
    figures: dict[str, float] = {}
    for name in CASES:
        figures |= measure_case(name)
    return figures | measure_integers()


if __name__ == "__main__":
    sys.argv = [argument for argument in sys.argv if argument != "--small"]
    main(measure, __doc__)
