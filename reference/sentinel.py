"""A value to fill an output with before a kernel runs, so that what it never writes can be told.

The pattern is a quiet NaN with a payload of its own: no arithmetic yields it, and a sum that starts from
it keeps it on common hardware.  An element that still holds it was not written, or was added to without
having been initialised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Bit pattern of the sentinel: sign, quiet NaN, payload 0x1A5A5A.
SENTINEL_BITS = 0xFFDA5A5A


def sentinel_filled(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A new float32 array full of the sentinel."""
    return np.full(shape, SENTINEL_BITS, np.uint32).view(np.float32)


def fill_with_sentinel(out: NDArray[np.float32]) -> None:
    """Overwrite ``out`` (float32, any strides) with the sentinel."""
    if out.dtype != np.float32:
        raise ValueError(f"out dtype: expected float32, got {out.dtype.name}")
    out.view(np.uint32)[...] = SENTINEL_BITS


def unwritten(out: NDArray[Any]) -> NDArray[np.bool_]:
    """Which elements of ``out`` still hold the sentinel; none for other types than float32."""
    if out.dtype != np.float32:
        return np.zeros(out.shape, bool)
    mask: NDArray[np.bool_] = out.view(np.uint32) == SENTINEL_BITS
    return mask
