"""What the comparator costs: ten million elements, and the memory beside them.

Run from the repository: ``python benchmarks/comparison.py [--json]``.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
from machine import main, seconds

from reference import Golden, compare

SHAPE = (2000, 5000)


def measure() -> dict[str, float]:
    """Seconds of a comparison that passes and of one that fails everywhere; extra memory by the output's."""
    rng = np.random.default_rng(0)
    exact = rng.standard_normal(SHAPE)
    magnitude = np.abs(exact).astype(np.float32) + 1
    golden = Golden(exact, magnitude, np.full(SHAPE[0], 4096, np.int64))
    out = exact.astype(np.float32)
    wrong = out + np.float32(1)
    assert compare(out, golden.out, golden).verdict == "PASS"
    assert compare(wrong, golden.out, golden).verdict == "FAIL"
    tracemalloc.start()
    compare(wrong, golden.out, golden)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "ten million elements, equal within the bound, s": seconds(lambda: compare(out, golden.out, golden)),
        "ten million elements, all wrong, s": seconds(lambda: compare(wrong, golden.out, golden)),
        "extra memory, times the output": peak / out.nbytes,
    }


if __name__ == "__main__":
    main(measure, __doc__)
