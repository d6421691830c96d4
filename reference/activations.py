"""INT8 activations with one scale per row, as W4A8 takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.checked import finite_floats
from reference.operands import host_array

#: Elements quantised at a time.
_SLAB = 1 << 20


def quantise_int8(x: Any) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise float rows (m, k): int8 (m, k) in [-127, 127] and pertoken_scale (m,) float32 = amax/127.

    The error of each value is at most pertoken_scale/2.  A row of zeros gets scale 1.  Raises ``ValueError``
    for another rank, and for NaN or infinity with the position.
    """
    array = finite_floats("x", x)
    if array.ndim != 2:
        raise ValueError(f"x shape: expected (m, k), got {array.shape}")
    quantised, scale = np.empty(array.shape, np.int8), np.empty(len(array), np.float32)
    step = max(1, _SLAB // max(1, array.shape[1]))
    for first in range(0, len(array), step):  # bounds the extra memory
        part = slice(first, first + step)
        quantised[part], scale[part] = _quantise_rows(array[part].astype(np.float64))
    if np.isinf(scale).any():
        raise ValueError(f"x: row {int(np.argmax(np.isinf(scale)))} is beyond the range of a float32 scale")
    return quantised, scale


def _quantise_rows(rows: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    with np.errstate(over="ignore"):
        scale = (np.abs(rows).max(axis=1, initial=0.0) / 127).astype(np.float32)
    scale[scale == 0] = 1  # also a row below float32's smallest scale: all its values become 0
    rows /= scale[:, None]
    np.rint(rows, out=rows)
    return np.clip(rows, -127, 127, out=rows).astype(np.int8), scale


def dequantise_int8(x1: Any, pertoken_scale: Any) -> NDArray[np.float64]:
    """x1 · pertoken_scale for int8 (m, k) and one scale per row, (m,) or (m, 1): float64 (m, k)."""
    codes, scale = host_array("x1", x1), host_array("pertoken_scale", pertoken_scale)
    if codes.dtype != np.int8 or codes.ndim != 2:
        raise ValueError(f"x1: expected int8 (m, k), got {codes.dtype.name} {codes.shape}")
    if scale.size != len(codes):
        raise ValueError(f"pertoken_scale: expected {len(codes)} values, one per row, got {scale.shape}")
    return codes.astype(np.float64) * scale.astype(np.float64).reshape(-1, 1)
