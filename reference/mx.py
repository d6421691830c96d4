"""MX quantisation: FP8 or FP4 elements with one E8M0 scale per 32 of k (OCP Microscaling v1.0).

Scales come in pairs: a tensor with k along one axis has ⌈k/64⌉ in that place and 2 at the end.  That is
(m, ⌈k/64⌉, 2) for x1 (m, k), (e, ⌈k/64⌉, n, 2) for x2 (e, k, n), and (e, n, ⌈k/64⌉, 2) for x2 transposed,
(e, n, k).  With an odd number of groups the last slot belongs to no element; it holds 127 (1.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from reference.checked import finite_floats
from reference.formats import MX_BLOCK, MX_ELEMENTS, decode_table, number_format, numpy_dtype
from reference.operands import Array, host_array, pack_nibbles

MxRounding = Literal["floor", "ceil"]
#: E8M0 code of 1.0: for groups of zeros and for the slot that belongs to no element.
_ONE = 127
_LARGEST_CODE = 254  # 255 is NaN
#: Elements quantised at a time.
_SLAB = 1 << 20


@dataclass(frozen=True, eq=False)
class MxTensor:
    """A quantised tensor in the operator's own layout.

    ``values``: ``ml_dtypes`` FP8 of the float array's shape, or uint8 with two FP4 in a byte along the last
    axis.  ``scale``: ``float8_e8m0fnu``, see the module.  ``axis`` is k's.  ``saturated`` elements were
    larger than the format's largest value and are clipped to it; ``zero_groups`` groups hold only zeros.
    """

    values: Array
    scale: Array
    dtype: str
    axis: int
    saturated: int
    zero_groups: int

    def dequantise(self) -> NDArray[np.float64]:
        """The values that the operator works with."""
        return dequantise_mx(self.values, self.scale, dtype=self.dtype, axis=self.axis)


def quantise_mx(
    values: Any, dtype: str = "float8_e4m3fn", *, axis: int = -1, rounding: MxRounding = "floor"
) -> MxTensor:
    """Quantise floats to ``dtype`` with one power-of-two scale for each 32 values along ``axis`` (k's).

    ``rounding`` says which power of two: ``floor`` is the specification's rule, 2^(⌊log2 amax⌋ - emax), after
    which the largest values of a group may saturate (they are counted); ``ceil`` takes the smallest power
    with which nothing saturates.  Elements round to nearest, ties to even.  A group of zeros gets scale 1.
    Scales stay within 2^-127 and 2^127.

    Raises ``ValueError`` for NaN or infinity (with the position), for an unknown format, and for FP4 with an
    odd last axis.
    """
    array = finite_floats("values", values)
    if dtype not in MX_ELEMENTS:
        raise ValueError(f"dtype: expected one of {', '.join(MX_ELEMENTS)}, got {dtype!r}")
    if rounding not in ("floor", "ceil"):
        raise ValueError(f"rounding: expected 'floor' or 'ceil', got {rounding!r}")
    k_axis, per_byte = _axis(axis, array.shape), number_format(dtype).per_byte
    if array.shape[-1] % per_byte:
        raise ValueError(f"values shape: expected an even last axis (two FP4 in a byte), got {array.shape}")
    packed = np.empty((*array.shape[:-1], array.shape[-1] // per_byte), np.uint8)
    scale = np.empty(scale_shape(array.shape, k_axis), np.uint8)
    saturated = zero_groups = 0
    for part, scale_part in _parts(array.shape, k_axis):
        codes, scale[scale_part], clipped, zeros = _quantise(array[part], dtype, k_axis, rounding)
        target = part if k_axis < array.ndim - 1 else (*part[:-1], _in_bytes(part[-1], per_byte))
        packed[target] = pack_nibbles("values", codes) if per_byte == 2 else codes
        saturated += clipped
        zero_groups += zeros
    elements, scales = packed.view(numpy_dtype(dtype)), scale.view(ml_dtypes.float8_e8m0fnu)
    return MxTensor(elements, scales, dtype, k_axis, saturated, zero_groups)


def dequantise_mx(
    values: Any, scale: Any, *, dtype: str | None = None, axis: int = -1
) -> NDArray[np.float64]:
    """The float64 values of MX elements and their E8M0 scales.

    ``dtype`` says what uint8 elements are (packed FP4, or FP8 bytes); ``scale`` is E8M0, or its bytes as
    uint8.  ``axis`` is k's, counted in the values.  Byte 0 is 2^-127 and 255 is NaN.
    """
    name, codes = _element_codes(values, dtype)
    k_axis = _axis(axis, codes.shape)
    scales = host_array("scale", scale)
    if scales.dtype not in (np.dtype(np.uint8), np.dtype(ml_dtypes.float8_e8m0fnu)):
        raise ValueError(f"scale: expected float8_e8m0fnu or its bytes as uint8, got {scales.dtype.name}")
    expected = scale_shape(codes.shape, k_axis)
    if scales.shape != expected:
        raise ValueError(
            f"scale shape: expected {expected} for values {codes.shape} with k on axis {k_axis}, "
            f"got {scales.shape}"
        )
    factors = decode_table("float8_e8m0fnu")[np.ascontiguousarray(scales).view(np.uint8)]
    groups = _in_groups(decode_table(name)[codes], k_axis)
    groups = groups * np.expand_dims(np.moveaxis(factors, -1, k_axis + 1), k_axis + 2)
    return _out_of_groups(groups, codes.shape, k_axis)


def scale_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape of the scales of a tensor of ``shape`` with k on ``axis`` (not negative)."""
    pairs = -(-shape[axis] // (2 * MX_BLOCK))
    return (*shape[:axis], pairs, *shape[axis + 1 :], 2)


def _axis(axis: int, shape: tuple[int, ...]) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis: {axis} is none of the {len(shape)} axes of shape {shape}")
    return axis % len(shape)


def _in_bytes(part: slice, per_byte: int) -> slice:
    return slice(part.start // per_byte, part.stop // per_byte)


def _parts(shape: tuple[int, ...], axis: int) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Pieces of about ``_SLAB`` elements, as index of the values and of the scales; groups stay whole."""
    pair = 2 * MX_BLOCK
    rows = shape[0] if axis else 1
    beside = prod(shape) // max(1, shape[axis] * rows)  # elements at one k of one row
    k_step = pair * max(1, _SLAB // max(1, pair * beside))
    row_step = max(1, _SLAB // max(1, shape[axis] * beside))
    for row in range(0, rows, row_step):
        lead = (slice(row, row_step + row), *[slice(None)] * (axis - 1)) if axis else ()
        for k in range(0, shape[axis], k_step):
            yield (*lead, slice(k, k + k_step)), (*lead, slice(k // pair, (k + k_step) // pair))


def _quantise(
    array: Array, dtype: str, axis: int, rounding: MxRounding
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], int, int]:
    """One slab: element codes one in a byte, scale codes, elements clipped, groups of zeros."""
    table = decode_table(dtype)
    largest = float(table[np.isfinite(table)].max())
    groups = _in_groups(array.astype(np.float64), axis)
    amax = np.abs(groups).max(axis=axis + 2)
    exponent = _shared_exponent(amax, largest, rounding)
    groups *= np.ldexp(1.0, -np.expand_dims(exponent, axis + 2))
    scaled = _out_of_groups(groups, array.shape, axis)
    clipped = int(np.count_nonzero(np.abs(scaled) > largest))
    if clipped:
        np.clip(scaled, -largest, largest, out=scaled)
    if array.dtype == np.float64:
        scaled = _round_to_odd(scaled)
    codes = scaled.astype(np.float32).astype(getattr(ml_dtypes, dtype)).view(np.uint8)
    scale = np.moveaxis((exponent + _ONE).astype(np.uint8), axis + 1, -1)
    return codes, scale, clipped, _zero_groups(amax, array.shape[axis], axis)


def _shared_exponent(amax: NDArray[np.float64], largest: float, rounding: MxRounding) -> NDArray[np.int64]:
    """The exponent of each group's scale, from exact powers of two: no logarithm rounds."""
    mantissa, exponent = np.frexp(amax)  # amax = mantissa · 2^exponent, 0.5 ≤ mantissa < 1
    top_mantissa, top_exponent = np.frexp(largest)
    shared = exponent.astype(np.int64) - int(top_exponent)
    if rounding == "ceil":
        shared += mantissa > top_mantissa
    return np.where(amax == 0, 0, np.clip(shared, -_ONE, _LARGEST_CODE - _ONE))


def _zero_groups(amax: NDArray[np.float64], k: int, axis: int) -> int:
    """Groups that hold only zeros, without the slot that belongs to no element."""
    odd = -(-k // MX_BLOCK) % 2
    padding = amax.size // (2 * amax.shape[axis]) if odd and amax.shape[axis] else 0
    return int(np.count_nonzero(amax == 0)) - padding


def _in_groups(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """(…, k, …) as (…, ⌈k/64⌉, 2, 32, …), filled up with zeros."""
    k = values.shape[axis]
    missing = -k % (2 * MX_BLOCK)
    if missing:
        values = np.pad(values, [(0, missing if position == axis else 0) for position in range(values.ndim)])
    pairs = (k + missing) // (2 * MX_BLOCK)
    return values.reshape(*values.shape[:axis], pairs, 2, MX_BLOCK, *values.shape[axis + 1 :])


def _out_of_groups(groups: NDArray[np.float64], shape: tuple[int, ...], axis: int) -> NDArray[np.float64]:
    """The inverse of :func:`_in_groups`."""
    padded = groups.shape[axis] * 2 * MX_BLOCK
    whole = groups.reshape(*shape[:axis], padded, *shape[axis + 1 :])
    return np.ascontiguousarray(whole[(slice(None),) * axis + (slice(shape[axis]),)])


def _round_to_odd(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 as float32 values that a second rounding cannot push across a tie.

    An inexact value becomes the neighbour with an odd last bit, which lies on the same side of every tie.
    """
    toward_zero = values.astype(np.float32)
    over = np.abs(toward_zero.astype(np.float64)) > np.abs(values)
    toward_zero[over] = np.nextafter(toward_zero[over], np.float32(0))
    bits = toward_zero.view(np.uint32)
    bits |= (toward_zero.astype(np.float64) != values).astype(np.uint32)
    return bits.view(np.float32).astype(np.float64)


def _element_codes(values: Any, dtype: str | None) -> tuple[str, NDArray[np.uint8]]:
    """The format's name and the codes, one in a byte."""
    array = host_array("values", values)
    name = array.dtype.name if dtype is None else dtype
    if name not in MX_ELEMENTS:
        raise ValueError(f"values: expected {', '.join(MX_ELEMENTS)}, or uint8 with dtype=…, got {name}")
    raw = np.ascontiguousarray(array).view(np.uint8)
    if array.dtype.itemsize != 1:
        raise ValueError(f"values: expected one byte per element (or two FP4), got {array.dtype.name}")
    if name == "float4_e2m1fn" and array.dtype != np.dtype(ml_dtypes.float4_e2m1fn):
        from reference.bundle import unpack_nibbles

        raw = unpack_nibbles(raw)
    return name, raw
