"""The bias and offset of W4A8, computed from the quantised weights; both per rank under tensor parallelism.

The device splits each activation x into 16·hi + lo + 8 and multiplies only hi and lo; the operator's bias
must bring the 8 back:  bias = 8 · Σ_k w · s.  The operator never computes it itself.
Source: the vendor's A2/A3 kernels (grouped_matmul_finalize_routing pre-process and MSD kernels).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from reference.checked import checked_int4, finite_floats
from reference.int4 import pack_int4
from reference.operands import Array, host_array
from reference.scales import refuse_groups, unpack_scale_int64

#: Rows of k whose nibbles add up in one byte: 16 · 15 = 240.
_ROWS_PER_BYTE = 16
_NIBBLES = 0x0F0F0F0F
_MIDDLES = np.int32(0x88888888 - (1 << 32))  # flips the sign bit of all eight: value + 8, unsigned


def make_bias(
    x2: Any, scale: Any, *, split_k: int | None = None, model_bias: Any = None
) -> NDArray[np.float32]:
    """The compensation 8·Σ_k w·s: float32 (e, n), or (ranks, e, n) with ``split_k`` ranks along k.

    ``x2``: INT4 values (e, k, n), packed bytes (e, k, n/2) or INT32 words (e, k, n/8).  ``scale``: INT64 as
    the operator gets it, read as the device reads it (19 bits), or floats, taken as they are; (e, 1, n) or
    (e, n).  Where float scales do not fit 19 bits, pass the packed ones: the bias must match them.
    With ``split_k`` each rank multiplies its own part of k and needs the bias of that part.
    ``model_bias`` is refused: there is no place for it.
    """
    if model_bias is not None:
        raise ValueError(_NO_MODEL_BIAS)
    factor = _per_column("scale", scale)
    words = weight_words(x2, factor.shape[1])
    if words.shape[0] != factor.shape[0]:
        raise ValueError(f"scale has {factor.shape[0]} experts, x2 has {words.shape[0]}")
    parts = [slice(None)] if split_k is None else k_slices(words.shape[1], split_k)
    bias = np.stack([_bias_of(words[:, part], factor) for part in parts])
    return bias[0] if split_k is None else bias


_NO_MODEL_BIAS = (
    "model_bias: W4A8 has no place for a bias of the model. The operator's bias is the compensation "
    "8·Σ_k w·scale, and it is multiplied by pertoken_scale · logit with the products: a model bias b added "
    "to it would come out as b · pertoken_scale. Add it after the operator, or use the MX path (Ascend 950), "
    "whose bias is the model's"
)


def make_offset(antiquant_offset: Any, scale: Any, *, split_k: int | None = None) -> NDArray[np.float32]:
    """The operator's offset, antiquant_offset · scale: float32 (e, 1, n); with ``split_k`` (ranks, e, 1, n).

    Weights are ``scale · (w + antiquant_offset)``; a zero point counts the other way round, so pass
    ``-zero_point``.  Both arguments are (e, 1, n) or (e, n), ``scale`` as for :func:`make_bias`.  Each rank
    along k gets the same offset: the operator multiplies it by the sum of the rank's own part of x1.
    """
    factor = _per_column("scale", scale)
    shift = _per_column("antiquant_offset", antiquant_offset)
    if shift.shape != factor.shape:
        raise ValueError(f"antiquant_offset: expected {factor.shape} like scale (e, n), got {shift.shape}")
    offset = (shift * factor).astype(np.float32)[:, None]
    if split_k is None:
        return offset
    _check_ranks(split_k)
    return np.repeat(offset[None], split_k, axis=0)


def k_slices(k: int, ranks: int, multiple: int = 64) -> list[slice]:
    """The part of k of each of ``ranks`` tensor-parallel ranks.

    ``multiple`` is what a rank's k must divide by: 64 for W4A8 on A2/A3 (which also wants more than 128), 32
    for MX, where a shared scale must not be cut.  Raises ``ValueError`` where k does not divide.
    """
    _check_ranks(ranks)
    if k % ranks:
        raise ValueError(f"k = {k} does not divide by {ranks} ranks")
    part = k // ranks
    if ranks > 1 and part % multiple:
        raise ValueError(f"k = {k} over {ranks} ranks gives {part} each; expected a multiple of {multiple}")
    return [slice(rank * part, (rank + 1) * part) for rank in range(ranks)]


def _check_ranks(ranks: int) -> None:
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"split_k: expected a number of ranks ≥ 1, got {ranks!r}")


def weight_words(x2: Any, n: int) -> NDArray[np.int32]:
    """``x2`` as INT32 words (e, k, n/8); which form it has follows from its dtype and from n."""
    array = host_array("x2", x2)
    if array.ndim != 3:
        raise ValueError(f"x2 shape: expected (e, k, n) values or packed words, got {array.shape}")
    width = array.shape[2]
    if array.dtype == np.int32 and width * 8 == n:
        return array
    if array.dtype == np.uint8 and width * 2 == n and n % 8 == 0:
        return np.ascontiguousarray(array).view("<i4").astype(np.int32, copy=False)
    looks_packed = array.dtype == np.int32 and bool(((array < -8) | (array > 7)).any())
    if width != n or looks_packed:
        raise ValueError(
            f"x2 is {array.dtype.name} {array.shape} and scale has n {n}: expected INT4 values (e, k, {n}), "
            f"bytes (e, k, {n // 2}) or INT32 words (e, k, {n // 8}); did you forget the 8 values in a word?"
        )
    padded = np.pad(checked_int4("x2", array), ((0, 0), (0, 0), (0, -n % 8)))
    return pack_int4(padded, "int32")


def column_sums(words: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """Σ_k w for one expert's words (k, ⌈n/8⌉): int64 (n,).

    Four nibbles that lie a byte apart are added at once, 16 rows at a time, as unsigned value + 8.
    """
    k = words.shape[0]
    if k == 0:
        return np.zeros(n, np.int64)
    unsigned = (words ^ _MIDDLES).view(np.uint32)
    starts = np.arange(0, k, _ROWS_PER_BYTE)
    halves = [(unsigned >> np.uint32(shift)) & np.uint32(_NIBBLES) for shift in (0, 4)]
    partial = [np.add.reduceat(half, starts, axis=0).astype("<u4").view(np.uint8) for half in halves]
    sums = np.stack([part.sum(axis=0, dtype=np.int64) for part in partial], axis=-1)
    return np.asarray(sums.reshape(-1)[:n] - 8 * k)


def _bias_of(words: NDArray[np.int32], factor: NDArray[np.float64]) -> NDArray[np.float32]:
    """8·Σ_k w·s for one range of k; the sum is exact, the product rounds once to float32."""
    sums = [column_sums(np.ascontiguousarray(expert), factor.shape[1]) for expert in words]
    return (8.0 * np.array(sums, np.float64).reshape(factor.shape) * factor).astype(np.float32)


def _per_column(name: str, value: Any) -> NDArray[np.float64]:
    """One number per expert and column, (e, n) float64, from (e, n) or (e, 1, n)."""
    array: Array = host_array(name, value)
    refuse_groups(name, array.shape)
    if array.ndim not in (2, 3):
        raise ValueError(f"{name} shape: expected (e, 1, n) or (e, n), got {array.shape}")
    if name == "scale" and array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        array = unpack_scale_int64(array, as_device=True)
    if name == "antiquant_offset" and (array.dtype.kind in "iu" or array.dtype == np.dtype(ml_dtypes.int4)):
        array = array.astype(np.float32)
    return finite_floats(name, array).astype(np.float64).reshape(array.shape[0], array.shape[-1])
