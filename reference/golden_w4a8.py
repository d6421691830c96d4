"""The golden's W4A8 path: int8 activations, int4 weights, one scale per output column.

    y = s · (Σ_k x·w − 8·Σ_k w) + bias + offset · Σ_k x,   then · (pertoken_scale · logit)

``bias`` is honoured as given: with ``bias = 8·Σ_k w·s`` it undoes the −8 of the device's nibble split
(x = 16·hi + lo + 8).  ``s`` is the float32 in the low word of the INT64 scale, of which the vendor's quant
vector keeps the top 19 bits.  The integer sums go through a float32 matmul, which is exact below 2^24.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reference.operands import Operands

if TYPE_CHECKING:
    from reference.golden import Contribution

#: Rows of k whose products are summed at once: 128 · 8 · 8192 = 2^23, below float32's exact 2^24.
_EXACT_ROWS = 8192
#: Rows of k that are unpacked at a time.
_STEP = 1024
#: Half precision: relative error of one rounding, and half the spacing of its subnormal numbers.
_HALF_EPSILON, _HALF_TINY = 2.0**-11, 2.0**-25


@dataclass(frozen=True)
class _Sums:
    """Exact sums over k: Σ x·w (rows, n), Σ w (1, n), Σ hi·w, Σ lo·w; last Σ|x|·|w| and, as a row more, Σ|w|."""

    products: NDArray[np.float64]
    columns: NDArray[np.float64]
    high: NDArray[np.float64]
    low: NDArray[np.float64]
    sizes: NDArray[np.float64] | None


class W4a8Expert:
    """Computes the contribution of one expert's rows at a time."""

    def __init__(
        self, operands: Operands, dtype: np.dtype[Any], magnitudes: bool, *, fp16_partials: bool = False
    ) -> None:
        self._operands = operands
        self._dtype = dtype
        self._magnitudes = magnitudes
        self._fp16_partials = fp16_partials

    def rows(self, group: int, part: slice) -> Contribution:
        """The contribution of x1's rows ``part``, which belong to expert ``group``."""
        from reference.golden import Contribution

        arrays, dtype = self._operands.arrays, self._dtype
        x = arrays["x1"][part].astype(np.float32)
        sums = self._sums(group, x)
        scale = quant_vector(arrays["scale"][group, 0])
        factor = arrays["pertoken_scale"][part, None].astype(dtype) * arrays["logit"][part, None]
        if self._fp16_partials:
            value = 16 * half(sums.high * scale) + half(sums.low * scale)
        else:
            value = (sums.products - 8 * sums.columns) * scale
        value = value.astype(dtype) + arrays["bias"][group].astype(dtype)
        if "offset" in arrays:
            row_sums = x.sum(axis=1, dtype=np.float64)[:, None]
            value += row_sums.astype(dtype) * arrays["offset"][group, 0].astype(dtype)
        value *= factor
        if sums.sizes is None:
            return Contribution(value, None, None, 0)
        magnitude, rounding = self._magnitude(
            group, x, sums, np.abs(scale), np.abs(factor.astype(np.float64))
        )
        return Contribution(value, magnitude, rounding, 2 * x.shape[1] + 3)

    def _sums(self, group: int, x: NDArray[np.float32]) -> _Sums:
        """The exact integer sums of one expert's rows: one pass over its weights."""
        ones, high = np.ones((1, x.shape[1]), np.float32), np.floor(x / 16)
        split = self._magnitudes or self._fp16_partials
        signed = np.concatenate([x, ones, high] if split else [x, ones])
        absolute = np.concatenate([np.abs(x), ones]) if self._magnitudes else None
        sums, sizes = integer_products(self._operands.arrays["x2"][group], signed, absolute)
        products, columns, high_sums = np.split(sums, [len(x), len(x) + 1])
        low_sums = products - 16 * high_sums - 8 * columns if split else high_sums
        return _Sums(products, columns, high_sums, low_sums, sizes)

    def _magnitude(
        self,
        group: int,
        x: NDArray[np.float32],
        sums: _Sums,
        scale: NDArray[np.float64],
        factor: NDArray[np.float64],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Sum of the absolute terms, and what the device's two roundings to half precision may add."""
        assert sums.sizes is not None
        arrays = self._operands.arrays
        size = (sums.sizes[:-1] + 8 * sums.sizes[-1]) * scale + np.abs(arrays["bias"][group])
        if "offset" in arrays:
            size += np.abs(x).sum(axis=1, dtype=np.float64)[:, None] * np.abs(arrays["offset"][group, 0])
        partials = (16 * np.abs(sums.high) + np.abs(sums.low)) * scale
        rounding = (_HALF_EPSILON * partials + 17 * _HALF_TINY) * factor
        return (size * factor).astype(np.float32), rounding.astype(np.float32)


def quant_vector(scale: NDArray[np.int64]) -> NDArray[np.float64]:
    """The factor in an INT64 scale: float32 bits in the low word, of which the top 19 count.

    Higher bits (the vendor's converters set bit 46) say nothing about the value.
    """
    low = (scale & 0xFFFFE000).astype(np.uint32)
    return low.view(np.float32).astype(np.float64)


def half(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to half precision, nearest even; beyond 65504 to infinity."""
    return values.astype(np.float16).astype(np.float64)


def integer_products(
    words: NDArray[np.int32], signed: NDArray[np.float32], absolute: NDArray[np.float32] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """``signed @ w`` and ``absolute @ |w|`` for int4 weights in int32 words (k, n/8): exact, as float64."""
    k, n = words.shape[0], words.shape[1] * 8
    sums = np.zeros((len(signed), n))
    sizes = None if absolute is None else np.zeros((len(absolute), n))
    for outer in range(0, k, _EXACT_ROWS):
        stop = min(k, outer + _EXACT_ROWS)
        exact = np.zeros((len(signed), n), np.float32)
        exact_sizes = None if absolute is None else np.zeros((len(absolute), n), np.float32)
        for first in range(outer, stop, _STEP):
            inner = slice(first, min(stop, first + _STEP))
            weight = unpack_words(words[inner])
            exact += signed[:, inner] @ weight
            if absolute is not None and exact_sizes is not None:
                exact_sizes += absolute[:, inner] @ np.abs(weight, out=weight)
        if exact.size and float(np.abs(exact).max()) >= 2**24:
            raise AssertionError("an integer sum left float32's exact range of 2^24")
        sums += exact
        if sizes is not None and exact_sizes is not None:
            sizes += exact_sizes
    return sums, sizes


def unpack_words(words: NDArray[np.int32]) -> NDArray[np.float32]:
    """int4 values of int32 words (rows, n/8), element 0 in bits 0 to 3: float32 (rows, n)."""
    raw = np.ascontiguousarray(words.astype("<i4", copy=False)).view(np.uint16)
    flat = np.take(_nibble_table(), raw.reshape(-1), mode="clip")
    return flat.view(np.float32).reshape(words.shape[0], words.shape[1] * 8)


@cache
def _nibble_table() -> NDArray[np.complex128]:
    """For each 16 bits the four two's-complement values that they hold, as one 16-byte record."""
    codes = np.arange(1 << 16, dtype=np.int32)
    nibbles = np.stack([(codes >> shift) & 0xF for shift in (0, 4, 8, 12)], axis=-1)
    return np.ascontiguousarray(np.where(nibbles < 8, nibbles, nibbles - 16).astype(np.float32)).view(
        np.complex128
    )[:, 0]
