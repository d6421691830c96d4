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

from reference.contribution import Contribution
from reference.operands import Operands

if TYPE_CHECKING:
    from reference.stages import Stages

#: Rows of k whose products are summed at once: 128 · 8 · 8192 = 2^23, below float32's exact 2^24.
_EXACT_ROWS = 8192
#: Rows of k that are unpacked at a time.
_STEP = 256
#: Half precision: relative error of one rounding, and half the spacing of its subnormal numbers.
_HALF_EPSILON, _HALF_TINY = 2.0**-11, 2.0**-25


@dataclass(frozen=True)
class W4a8Product:
    """Integer sums of one expert's rows, as float64.

    ``sums`` Σ x·w (rows, n), ``column_sums`` Σ w (n,), ``high_sums`` Σ hi·w with hi = ⌊x / 16⌋, and
    ``sizes`` (rows + 1, n) Σ |x|·|w| of each row, then Σ |w|; None where not asked for.
    """

    sums: NDArray[np.float64]
    column_sums: NDArray[np.float64]
    high_sums: NDArray[np.float64] | None
    sizes: NDArray[np.float64] | None

    def copy(self) -> W4a8Product:
        """Itself: nothing is changed in place."""
        return self

    @property
    def high(self) -> NDArray[np.float64]:
        """Σ hi·w."""
        assert self.high_sums is not None
        return self.high_sums

    @property
    def low(self) -> NDArray[np.float64]:
        """Σ lo·w with lo = x - 16·hi - 8."""
        return self.sums - 16 * self.high - 8 * self.column_sums


class W4a8Expert:
    """Computes the contribution of one expert's rows at a time."""

    def __init__(
        self, operands: Operands, dtype: np.dtype[Any], magnitudes: bool, *, fp16_partials: bool = False
    ) -> None:
        self._operands = operands
        self._dtype = dtype
        self._magnitudes = magnitudes
        self._fp16_partials = fp16_partials

    def rows(self, group: int, part: slice, stages: Stages | None = None) -> Contribution:
        """The contribution of x1's rows ``part``, which belong to expert ``group``."""
        return self.finish(group, part, self.product(group, part), stages)

    def product(self, group: int, part: slice) -> W4a8Product:
        """The integer sums of rows ``part`` with the weights of expert ``group``."""
        x = self._activations(part)
        ones = np.ones((1, x.shape[1]), np.float32)
        split = self._magnitudes or self._fp16_partials
        signed = np.concatenate([x, ones, *([np.floor(x / 16)] if split else [])])
        absolute = np.concatenate([np.abs(x), ones]) if self._magnitudes else None
        sums, sizes = integer_products(self._operands.arrays["x2"][group], signed, absolute)
        count = len(x)
        return W4a8Product(sums[:count], sums[count], sums[count + 1 :] if split else None, sizes)

    def finish(
        self, group: int, part: slice, product: W4a8Product, stages: Stages | None = None
    ) -> Contribution:
        """Scale, add bias and offset, multiply by the row's factors; ``stages`` receives each step."""
        operands, dtype = self._operands, self._dtype
        scale = self._scale(group)
        bias = operands.arrays["bias"][group]
        factor = (
            operands.arrays["pertoken_scale"][part, None].astype(dtype) * operands.arrays["logit"][part, None]
        )
        offset = None if operands["offset"] is None else operands.arrays["offset"][group, 0]
        if self._fp16_partials:
            value = 16 * self._half(product.high * scale) + self._half(product.low * scale)
        else:
            value = (product.sums - 8 * product.column_sums) * scale
        value = value.astype(dtype)
        if stages is not None:
            stages["matmul"] = value
        value = value + bias.astype(dtype)
        if offset is not None:
            value += self._row_sums(part).astype(dtype) * offset.astype(dtype)
        if stages is not None:
            stages["bias"] = value.copy()
        value *= factor
        if product.sizes is None:
            return Contribution(value, None, None, 0)
        return self._with_bounds(part, value, product, np.abs(scale), np.abs(bias), offset, np.abs(factor))

    def _with_bounds(
        self,
        part: slice,
        value: NDArray[Any],
        product: W4a8Product,
        scale: NDArray[np.float64],
        bias: NDArray[Any],
        offset: NDArray[Any] | None,
        factor: NDArray[Any],
    ) -> Contribution:
        """The contribution with the sums of absolute terms and the rounding of the partials."""
        assert product.sizes is not None
        weight = factor.astype(np.float64)
        size = (product.sizes[:-1] + 8 * product.sizes[-1]) * scale + bias
        if offset is not None:
            activations = np.abs(self._operands.arrays["x1"][part].astype(np.float32))
            size += activations.sum(axis=1, dtype=np.float64)[:, None] * np.abs(offset)
        rounding = 16 * half_rounding(product.high * scale) + half_rounding(product.low * scale)
        terms = 2 * self._operands.problem.k + 3
        return Contribution(
            value, (size * weight).astype(np.float32), (rounding * weight).astype(np.float32), terms
        )

    def _activations(self, part: slice) -> NDArray[np.float32]:
        """Rows of x1 as the matmul sees them."""
        return self._operands.arrays["x1"][part].astype(np.float32)

    def _row_sums(self, part: slice) -> NDArray[np.float64]:
        """Σ_k x of some rows, (rows, 1)."""
        x = self._operands.arrays["x1"][part].astype(np.float32)
        sums: NDArray[np.float64] = x.sum(axis=1, dtype=np.float64)
        return sums[:, None]

    def _scale(self, group: int) -> NDArray[np.float64]:
        """The factors of one expert's columns, (n,)."""
        return quant_vector(self._operands.arrays["scale"][group, 0])

    def _half(self, partials: NDArray[np.float64]) -> NDArray[np.float64]:
        """Partial products as the device stores them."""
        return half(partials)


def quant_vector(scale: NDArray[np.int64]) -> NDArray[np.float64]:
    """The factor in an INT64 scale: float32 bits in the low word, of which the top 19 count.

    Higher bits (the vendor's converters set bit 46) say nothing about the value.
    """
    low = (scale & 0xFFFFE000).astype(np.uint32)
    return low.view(np.float32).astype(np.float64)


def half_rounding(partials: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that storing ``partials`` in half precision may change them, in any rounding mode to
    nearest: nothing where they fit exactly."""
    exact = half(partials) == partials
    return np.where(exact, 0.0, _HALF_EPSILON * np.abs(partials) + _HALF_TINY)


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
    buffer = np.empty(min(k, _STEP) * n, np.float32)  # used again: fresh pages cost more than unpacking
    for outer in range(0, k, _EXACT_ROWS):
        stop = min(k, outer + _EXACT_ROWS)
        exact = np.zeros((len(signed), n), np.float32)
        exact_sizes = None if absolute is None else np.zeros((len(absolute), n), np.float32)
        for first in range(outer, stop, _STEP):
            inner = slice(first, min(stop, first + _STEP))
            weight = unpack_words(words[inner], buffer)
            exact += signed[:, inner] @ weight
            if absolute is not None and exact_sizes is not None:
                exact_sizes += absolute[:, inner] @ np.abs(weight, out=weight)
        if exact.size and float(np.abs(exact).max()) >= 2**24:
            raise AssertionError("an integer sum left float32's exact range of 2^24")
        sums += exact
        if sizes is not None and exact_sizes is not None:
            sizes += exact_sizes
    return sums, sizes


def unpack_words(words: NDArray[np.int32], buffer: NDArray[np.float32]) -> NDArray[np.float32]:
    """int4 values of int32 words (rows, n/8), element 0 in bits 0 to 3: float32 (rows, n), in ``buffer``."""
    raw = np.ascontiguousarray(words.astype("<i4", copy=False)).view(np.uint16).reshape(-1)
    out = buffer[: raw.size * 4].view(np.complex128)
    np.take(_nibble_table(), raw, mode="clip", out=out)
    return out.view(np.float32).reshape(words.shape[0], words.shape[1] * 8)


@cache
def _nibble_table() -> NDArray[np.complex128]:
    """For each 16 bits the four two's-complement values that they hold, as one 16-byte record."""
    codes = np.arange(1 << 16, dtype=np.int32)
    nibbles = np.stack([(codes >> shift) & 0xF for shift in (0, 4, 8, 12)], axis=-1)
    return np.ascontiguousarray(np.where(nibbles < 8, nibbles, nibbles - 16).astype(np.float32)).view(
        np.complex128
    )[:, 0]
