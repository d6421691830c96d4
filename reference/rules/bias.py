"""The W4A8 bias recomputed from the weights, on request: it costs one pass over x2."""

from __future__ import annotations

from typing import Any

from reference.rules.build import row
from reference.rules.call import Call
from reference.rules.model import W4A8, Findings, Rule, one
from reference.rules.scales import read_array


def sum_weights(words: Any) -> Any:
    """Sum of the INT4 values along k: (e, k, n/8) int32 words to (e, n) int64."""
    import numpy as np

    e, _, packed = words.shape
    sums = np.empty((e, packed, 8), dtype=np.int64)
    unsigned = np.ascontiguousarray(words).view(np.uint32)
    for nibble in range(8):  # element j of a word sits in bits 4j..4j+3
        values = ((unsigned >> np.uint32(4 * nibble)) & np.uint32(15)).astype(np.int8)
        sums[:, :, nibble] = ((values ^ 8) - 8).sum(axis=1, dtype=np.int64)
    return sums.reshape(e, packed * 8)


def check_bias(call: Call) -> Findings:
    """Compare bias with 8*sum_k(w*scale) and name the factor that is off."""
    import numpy as np

    words, scale = read_array(call, "x2", "int32"), read_array(call, "scale", "int64")
    bias = read_array(call, "bias", "float32")
    if words is None or scale is None or bias is None or call.nz or words.ndim != 3 or bias.ndim != 2:
        return None
    factors = (np.ascontiguousarray(scale).view(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    factors = factors.view(np.float32).astype(np.float64).reshape(len(scale), -1)
    sums = sum_weights(words)
    if sums.shape != bias.shape or factors.shape != bias.shape:
        return None
    want = 8.0 * sums * factors
    wrong = np.abs(bias - want) > 2.0**-8 * np.abs(want) + 2.0**-8 * factors
    if not wrong.any():
        return None
    expert, column = (int(axis[0]) for axis in np.nonzero(wrong))
    got = f"{bias[expert, column]:g} for {want[expert, column]:g} at ({expert}, {column})"
    hint = _name_difference(bias.astype(np.float64), want, sums)
    return one("bias", "8*sum_k(w*scale)", f"{got}, {int(wrong.sum())} of {wrong.size} differ", hint)


def _name_difference(bias: Any, want: Any, sums: Any) -> str:
    import numpy as np

    if not bias.any():
        return "the bias is 0: every result is off by it"
    if np.allclose(bias, 8.0 * sums, rtol=1e-3):
        return "the bias is 8*sum_k(w): the scale is missing"
    if np.allclose(bias, sums, rtol=1e-3):
        return "the bias is sum_k(w): factor 8 and scale are missing"
    usable = np.abs(want) > 0
    ratios = bias[usable] / want[usable]
    ratio = float(np.median(ratios)) if ratios.size else 0.0
    if ratio and np.allclose(ratios, ratio, rtol=1e-2):
        return f"the bias differs by the factor {ratio:.3f}; 0.125 means that the factor 8 was forgotten"
    return "no single factor explains it: other weights, other scale or another order of experts"


RULE: Rule = row(
    "bias-differs",
    "the W4A8 bias is 8*sum_k(w*scale)",
    "values",
    check_bias,
    "documentation page, biasOptional: 8 * w * scale",
    W4A8,
    93,
    level="warning",
    status=0,
    stage="values",
)
