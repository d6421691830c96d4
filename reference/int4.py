"""INT4 weights: quantise, pack and unpack.

Two values share a byte, the even index in the low nibble; eight share the INT32 word that the operator
takes on A2/A3, element 0 in bits 0 to 3.  On a little-endian machine both are the same memory.
Source: torch_npu's ``npu_convert_weight_to_int4pack`` and its test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reference.checked import checked_int4, finite_floats
from reference.operands import host_array
from reference.scales import round_scale

Int4Carrier = Literal["uint8", "int32"]
#: Values that share one element of each carrier.
_SHARED = {"uint8": 2, "int32": 8}
#: Steps between the smallest and the largest INT4 value.
_STEPS = 15


def pack_int4(values: Any, carrier: Int4Carrier = "uint8") -> NDArray[Any]:
    """Pack integers (…, n) into bytes (…, n/2), or with ``carrier="int32"`` into words (…, n/8).

    ``values`` is an integer array or tensor (``ml_dtypes.int4`` too).  Raises ``ValueError`` with position
    and value for anything outside [-8, 7]: nothing wraps.
    """
    array = checked_int4("values", values)
    shared = _SHARED.get(carrier)
    if shared is None:
        raise ValueError(f"carrier: expected 'uint8' or 'int32', got {carrier!r}")
    if array.ndim == 0 or array.shape[-1] % shared:
        raise ValueError(
            f"values shape: expected a last axis divisible by {shared} ({shared} values share a {carrier}), "
            f"got {array.shape}; pad it with zeros"
        )
    nibbles = array.view(np.uint8)
    packed = np.ascontiguousarray((nibbles[..., 0::2] & 0xF) | (nibbles[..., 1::2] << 4))
    return packed if carrier == "uint8" else packed.view("<i4").astype(np.int32, copy=False)


def unpack_int4(packed: Any) -> NDArray[np.int8]:
    """The int8 values (…, n) of packed bytes (…, n/2) or INT32 words (…, n/8)."""
    array = host_array("packed", packed)
    if array.dtype not in (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.int32)) or array.ndim == 0:
        raise ValueError(f"packed: expected uint8 bytes or int32 words, got {array.dtype.name} {array.shape}")
    words = array.astype("<i4", copy=False) if array.dtype == np.int32 else array
    bytes_ = np.ascontiguousarray(words).view(np.int8)
    out = np.empty((*bytes_.shape[:-1], bytes_.shape[-1] * 2), np.int8)
    out[..., 0::2] = (bytes_ << 4) >> 4  # the arithmetic shift back copies the sign
    out[..., 1::2] = bytes_ >> 4
    return out


@dataclass(frozen=True, eq=False)
class Int4Weights:
    """Quantised weights: ``W ≈ scale · (values + antiquant_offset)``.

    ``values`` (e, k, n) int8 in [-8, 7]; ``scale`` (e, 1, n) float32, exact in the 19 bits that the device
    reads; ``antiquant_offset`` (e, 1, n) float32, None where the weights are symmetric.
    """

    values: NDArray[np.int8]
    scale: NDArray[np.float32]
    antiquant_offset: NDArray[np.float32] | None = None

    def dequantise(self) -> NDArray[np.float64]:
        """The weights that the operator works with, (e, k, n) float64."""
        shifted = self.values.astype(np.float64)
        if self.antiquant_offset is not None:
            shifted += self.antiquant_offset
        return shifted * self.scale


def quantise_int4(weights: Any, *, symmetric: bool = True) -> Int4Weights:
    """Quantise float weights (e, k, n) with one scale per expert and column.

    The scale is amax/7, rounded up to the 19 bits that the device reads (by at most 2^-10, relative);
    ``symmetric=False`` uses all 16 values, (max - min)/15 with 0 in the range.  The error of each weight is
    at most scale/2.  A column of zeros gets scale 1.
    Raises ``ValueError`` for another rank, and for NaN or infinity with the position.
    """
    array = finite_floats("weights", weights)
    if array.ndim != 3:
        raise ValueError(f"weights shape: expected (e, k, n), got {array.shape}")
    e, k, n = array.shape
    values = np.zeros(array.shape, np.int8)
    scale = np.ones((e, 1, n), np.float32)
    offset = None if symmetric else np.zeros((e, 1, n), np.float32)
    for expert in range(e if k else 0):  # one expert at a time: bounds the extra memory
        wide = array[expert].astype(np.float64)
        if offset is None:
            scale[expert, 0] = _scale_above(np.abs(wide).max(axis=0) / 7)
        else:
            low, high = wide.min(axis=0, initial=0), wide.max(axis=0, initial=0)
            scale[expert, 0] = _scale_above((high - low) / _STEPS)
            offset[expert, 0] = np.rint(low / scale[expert, 0]) + 8
        wide /= scale[expert]
        if offset is not None:
            wide -= offset[expert]
        values[expert] = np.clip(np.rint(wide), -8, 7)
    return Int4Weights(values, scale, offset)


def _scale_above(step: NDArray[np.float64]) -> NDArray[np.float32]:
    """``step`` as float32, rounded up to 10 mantissa bits; 1 for a step of zero."""
    scale = round_scale(step.astype(np.float32), "up")
    scale[scale == 0] = 1
    return scale
