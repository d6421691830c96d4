"""Values that a preparation helper was given, as arrays, after a check of each one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from reference.operands import Array, host_array

_FLOATS = tuple(np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16))


def checked_int4(name: str, values: Any) -> NDArray[np.int8]:
    """``values`` as int8, after a check that every one of them is an integer in [-8, 7]."""
    array = host_array(name, values)
    if array.dtype == np.dtype(ml_dtypes.int4):
        return np.asarray(array.astype(np.int8))
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected integers in [-8, 7], got {array.dtype.name}; round them first")
    if array.size and (array.min() < -8 or array.max() > 7):
        wrong = (array < -8) | (array > 7)
        position = [int(i) for i in np.unravel_index(int(np.argmax(wrong)), array.shape)]
        raise ValueError(
            f"{name}{position}: expected INT4 in [-8, 7], got {array[tuple(position)]} "
            f"({int(np.count_nonzero(wrong))} of {array.size} values are outside); clip or re-quantise"
        )
    return np.ascontiguousarray(array.astype(np.int8, copy=False))


def finite_floats(name: str, values: Any) -> Array:
    """``values`` as an array of floats; ``ValueError`` names the first NaN or infinity and its position."""
    array = host_array(name, values)
    if array.dtype.kind in "iu":
        raise ValueError(f"{name}: expected floats, got {array.dtype.name}; these look quantised already")
    if array.dtype not in _FLOATS:
        raise ValueError(f"{name}: expected float32, float64, float16 or bfloat16, got {array.dtype.name}")
    finite = np.isfinite(array)
    if not finite.all():
        position = [int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape)]
        raise ValueError(f"{name}{position}: expected finite values, got {float(array[tuple(position)])}")
    return array


def integers(name: str, values: Any) -> NDArray[np.int64]:
    """``values`` as int64; ``ValueError`` where the type is no integer: floats are not truncated."""
    array = host_array(name, values)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name}: expected integers, got {array.dtype.name}")
    return array.astype(np.int64)
