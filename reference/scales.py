"""The INT64 scale of W4A8: float32 bits in the low word.

Of these the vendor's quant vector keeps the top 19 (sign, 8 exponent bits, 10 mantissa bits); the vendor's
own converters round to them and set bit 46, which says nothing about the value.
Sources: AscendC ``SetQuantVector``; ``aclnnTransQuantParamV2`` and V3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reference.checked import finite_floats
from reference.operands import host_array

ScaleRounding = Literal["keep", "nearest", "truncate", "up"]
#: float32 bits that the device does not read.
_LOST_BITS = 13
_KEPT = np.uint32(0xFFFFFFFF >> _LOST_BITS << _LOST_BITS)


def pack_scale_int64(scale: Any, rounding: ScaleRounding = "keep") -> NDArray[np.int64]:
    """The bits of float32 scales as INT64, high word zero; the shape stays.

    The operator takes (e, 1, n): one scale per expert and column.  Three axes with another length in the
    middle are per-group scales and refused.  Half and BF16 widen exactly, float64 rounds to float32.
    ``rounding`` says what happens to the 13 bits that the device drops: ``keep`` leaves them (see
    :func:`scale_loss`), ``nearest`` halves the error to 2^-11, ``truncate`` makes what the device reads,
    ``up`` never makes a scale smaller.
    Raises ``ValueError`` for integers, NaN, infinity and per-group scales.
    """
    array = finite_floats("scale", scale)
    refuse_groups("scale", array.shape)
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    finite_floats("scale", single)  # a float64 beyond float32's range
    return np.asarray(_bits(round_scale(single, rounding)).astype(np.int64))


def unpack_scale_int64(packed: Any, *, as_device: bool = False) -> NDArray[np.float32]:
    """The float32 scales in INT64 (or UINT64) values; ``as_device``: the 19 bits that the device reads."""
    array = host_array("packed", packed)
    if array.dtype.kind not in "iu" or array.dtype.itemsize != 8:
        raise ValueError(f"packed: expected int64 or uint64, got {array.dtype.name}")
    bits = (array.astype(np.uint64, copy=False) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return np.asarray((bits & _KEPT if as_device else bits).view(np.float32))


def round_scale(scale: NDArray[np.float32], rounding: ScaleRounding) -> NDArray[np.float32]:
    """float32 scales with the 13 low bits rounded away as ``rounding`` says."""
    bits = _bits(scale)
    if rounding == "keep":
        return bits.view(np.float32)
    if rounding == "nearest":  # half way goes to the even neighbour; a carry runs into the exponent
        bits = bits + ((np.uint32(1) << np.uint32(_LOST_BITS - 1)) - np.uint32(1) + (bits >> _LOST_BITS & 1))
    elif rounding == "up":
        bits = bits + ~_KEPT
    elif rounding != "truncate":
        raise ValueError(f"rounding: expected 'keep', 'nearest', 'truncate' or 'up', got {rounding!r}")
    return np.asarray((bits & _KEPT).view(np.float32))


@dataclass(frozen=True)
class ScaleLoss:
    """What the device drops: ``count`` of ``size`` scales change, most ``max_relative`` at ``position``."""

    count: int
    size: int
    max_relative: float
    position: tuple[int, ...] | None

    def __str__(self) -> str:
        if not self.count:
            return f"all {self.size} scales are exact in the 19 bits that the device reads"
        return (
            f"{self.count} of {self.size} scales lose up to {self.max_relative:.3g} (relative, at "
            f'{list(self.position or ())}) in the 19 bits that the device reads; rounding="nearest" halves it'
        )


def scale_loss(packed: Any) -> ScaleLoss:
    """How far the scales that the device reads are from the float32 values in ``packed`` (INT64)."""
    full = unpack_scale_int64(packed).astype(np.float64)
    kept = unpack_scale_int64(packed, as_device=True).astype(np.float64)
    changed = full != kept
    if not changed.any():
        return ScaleLoss(0, full.size, 0.0, None)
    relative = np.zeros(full.shape)
    np.divide(np.abs(full - kept), np.abs(full), out=relative, where=changed)
    position = np.unravel_index(int(np.argmax(relative)), full.shape)
    return ScaleLoss(int(changed.sum()), full.size, float(relative.max()), tuple(int(i) for i in position))


def refuse_groups(name: str, shape: tuple[int, ...]) -> None:
    """Refuse per-group scales: this operator has one scale per expert and column."""
    if len(shape) == 3 and shape[1] != 1:
        raise ValueError(
            f"{name} axis 1 is {shape[1]}, shape {shape}; this operator takes 1 (per-channel): the scale is "
            "applied once to the sum over all of k. Group-quantised checkpoints need another operator or "
            "re-quantisation"
        )


def _bits(scale: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(scale).reshape(scale.shape).view(np.uint32)
