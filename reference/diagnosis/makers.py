"""Other ways to compute one expert's rows: each is a mistake that no change of operands expresses."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from reference.golden_mx import MxExpert, MxProduct
from reference.golden_w4a8 import W4a8Expert, W4a8Product, half
from reference.operands import Array, Operands

_FLOAT64 = np.dtype(np.float64)


class LinearScales(MxExpert):
    """E8M0 bytes read as plain numbers, on either side or both."""

    def __init__(self, operands: Operands, *, x: bool, w: bool) -> None:
        super().__init__(operands, _FLOAT64, magnitudes=True)
        self._x, self._w = x, w

    def _decode_scale(self, codes: Array) -> NDArray[Any]:
        of_rows = np.may_share_memory(codes, self._operands.arrays["pertoken_scale"])
        if self._x if of_rows else self._w:
            return np.ascontiguousarray(codes).view(np.uint8).astype(np.float64)
        return super()._decode_scale(codes)


class RoundedMx(MxExpert):
    """Products rounded to a narrow type before bias and logit."""

    def __init__(self, operands: Operands, narrow: np.dtype[Any]) -> None:
        super().__init__(operands, _FLOAT64, magnitudes=True)
        self._narrow = narrow

    def product(self, group: int, part: slice) -> MxProduct:
        product = super().product(group, part)
        return MxProduct(product.value.astype(self._narrow).astype(np.float64), product.magnitude)


class ChangedW4a8(W4a8Expert):
    """W4A8 with mistakes: see the arguments.

    ``shift`` 0 leaves the -8 of the nibble split out; ``truncate`` splits x = 16·hi + lo by truncation;
    ``exchange`` swaps hi and lo; ``unsigned`` reads int8 as uint8; ``row_sums`` False multiplies the offset
    by 1; ``scale`` reads the INT64 scale differently; ``partials`` rounds each partial product, ``whole``
    their sum.
    """

    def __init__(
        self,
        operands: Operands,
        *,
        shift: int = 8,
        truncate: bool = False,
        exchange: bool = False,
        unsigned: bool = False,
        row_sums: bool = True,
        scale: str = "",
        partials: str = "",
        whole: np.dtype[Any] | None = None,
    ) -> None:
        super().__init__(operands, _FLOAT64, magnitudes=True, fp16_partials=bool(partials))
        self._split_shift = shift
        self._truncate, self._exchange, self._unsigned = truncate, exchange, unsigned
        self._offset_sums, self._reading = row_sums, scale
        self._saturate, self._whole = partials == "saturate", whole

    def product(self, group: int, part: slice) -> W4a8Product:
        product = super().product(group, part)
        sums = product.sums + (8 - self._split_shift) * product.column_sums
        if self._exchange:
            sums = 16 * product.low + product.high + 8 * product.column_sums
        if self._whole is not None:
            scale = self._scale(group)
            scale = np.where(scale == 0, 1.0, scale)
            rounded = ((sums - 8 * product.column_sums) * scale).astype(self._whole).astype(np.float64)
            sums = rounded / scale + 8 * product.column_sums
        return W4a8Product(sums, product.column_sums, product.high_sums, product.sizes)

    def _activations(self, part: slice) -> NDArray[np.float32]:
        x = super()._activations(part)
        if self._truncate:  # hi = trunc(x / 16), lo = (x & 15) - 8
            x = np.where((x < 0) & (x % 16 != 0), x + 16, x)
        if self._unsigned:
            x = x % 256
        return x.astype(np.float32)

    def _row_sums(self, part: slice) -> NDArray[np.float64]:
        sums = super()._row_sums(part)
        return sums if self._offset_sums else np.ones_like(sums)

    def _scale(self, group: int) -> NDArray[np.float64]:
        return read_scale(self._operands.arrays["scale"][group, 0], self._reading)

    def _half(self, partials: NDArray[np.float64]) -> NDArray[np.float64]:
        rounded = half(partials)
        return np.clip(rounded, -65504.0, 65504.0) if self._saturate else rounded


def read_scale(scale: NDArray[np.int64], reading: str) -> NDArray[np.float64]:
    """INT64 scales read rightly (``""``) or not: ``number``, ``float64``, ``all_bits``, ``float16``."""
    scale = np.ascontiguousarray(scale)
    low = (scale & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
    if reading == "number":
        return scale.astype(np.float64)
    if reading == "float64":
        return scale.view(np.float64)
    if reading == "all_bits":
        return low.astype(np.float64)
    cut = (scale & 0xFFFFE000).astype(np.uint32).view(np.float32)
    return cut.astype(np.float16 if reading == "float16" else np.float32).astype(np.float64)


NARROW: dict[str, np.dtype[Any]] = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
