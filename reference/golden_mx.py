"""The golden's MX path: FP8 or FP4 elements with one E8M0 scale per 32 of k, on both sides.

    y = Σ_k (x · xs) · (w · ws) + bias,   then · logit

The scale of element k is entry ``[k // 64, (k // 32) % 2]`` of the pairs on either side; the second
entry of the last pair is padding when ⌈k/32⌉ is odd, and is never read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reference.contribution import Contribution
from reference.formats import MX_BLOCK, decode_table, number_format
from reference.operands import Array, Operands, is_dense

if TYPE_CHECKING:
    from reference.stages import Stages

#: Bytes of decoded weights that are multiplied at a time, and that are decoded and scaled at a time.
_BLOCK_BYTES, _CACHE_BYTES = 2 << 20, 1 << 20


@dataclass
class MxProduct:
    """Products of one expert's rows: (rows, n), with the sums of the absolute values of their terms."""

    value: NDArray[Any]
    magnitude: NDArray[np.float32] | None

    def copy(self) -> MxProduct:
        """A product that may be finished in place."""
        return MxProduct(self.value.copy(), None if self.magnitude is None else self.magnitude.copy())


class MxExpert:
    """Computes the contribution of one expert's rows at a time."""

    def __init__(self, operands: Operands, dtype: np.dtype[Any], magnitudes: bool) -> None:
        self._operands = operands
        self._dtype = dtype
        self._magnitudes = magnitudes
        self._blocks = -(-operands.problem.k // MX_BLOCK)
        self._weight_type = operands.problem.spec("x2").dtype
        self._buffer = np.empty(0, dtype)
        self._sizes = np.empty(0, np.float32)

    def rows(self, group: int, part: slice, stages: Stages | None = None) -> Contribution:
        """The contribution of x1's rows ``part``, which belong to expert ``group``."""
        return self.finish(group, part, self.product(group, part), stages)

    def product(self, group: int, part: slice) -> MxProduct:
        """Σ_k (x · xs) · (w · ws) of rows ``part`` with the weights of expert ``group``."""
        x = self._decode_rows(part)
        value = np.zeros((len(x), self._operands.problem.n), self._dtype)
        product = MxProduct(value, np.zeros(value.shape, np.float32) if self._magnitudes else None)
        self._multiply(group, x, product.value, product.magnitude)
        return product

    def finish(
        self, group: int, part: slice, product: MxProduct, stages: Stages | None = None
    ) -> Contribution:
        """Add bias and multiply by logit, in place; ``stages`` receives a copy of each step."""
        operands, dtype = self._operands, self._dtype
        value, magnitude = product.value, product.magnitude
        terms = operands.problem.k
        if stages is not None:
            stages["matmul"] = value.copy()
        if operands["bias"] is not None:
            bias = operands["bias"][group].astype(dtype)
            value += bias
            terms += 1
            if magnitude is not None:
                magnitude += np.abs(bias.astype(np.float32))
        if stages is not None:
            stages["bias"] = value.copy()
        logit = operands.arrays["logit"][part, None].astype(dtype)
        value *= logit
        if magnitude is not None:
            magnitude *= np.abs(logit.astype(np.float32))
        return Contribution(value, magnitude, None, terms)

    def _decode_rows(self, part: slice) -> NDArray[Any]:
        """x · xs of some rows, (rows, k)."""
        operands = self._operands
        codes = operands.arrays["x1"][part]
        x = decode_bytes(codes, operands.problem.spec("x1").dtype, self._dtype)
        scale = self._decode_scale(operands.arrays["pertoken_scale"][part])
        scale_columns(x, scale.reshape(len(x), -1)[:, : self._blocks])
        return x

    def _decode_scale(self, codes: Array) -> NDArray[Any]:
        """Values of E8M0 bytes."""
        return decode_bytes(codes, "float8_e8m0fnu", self._dtype)

    def _multiply(
        self, group: int, x: NDArray[Any], value: NDArray[Any], magnitude: NDArray[np.float32] | None
    ) -> None:
        """Add x · (w · ws) to ``value`` and the sum of absolute terms to ``magnitude``, block by block."""
        weight, k_first = self._weight(group)
        scale = self._scale(group, k_first)
        absolute = np.abs(x).astype(np.float32) if magnitude is not None else None
        step = self._rows_within(_BLOCK_BYTES, weight)
        for first in range(0, len(weight), step):
            rows = slice(first, min(first + step, len(weight)))
            block = self._decode_weight(weight, scale, rows, k_first)
            if k_first:
                inner, target = rows, slice(None)
            else:
                block = block.T
                inner, target = slice(None), rows
            value[:, target] += x[:, inner] @ block
            if magnitude is not None and absolute is not None:
                magnitude[:, target] += absolute[:, inner] @ self._absolute(block)

    def _rows_within(self, nbytes: int, weight: Array) -> int:
        """Rows of a weight matrix that take about ``nbytes`` when they are decoded, in whole scale blocks."""
        width: int = weight.shape[1] * number_format(self._weight_type).per_byte * self._dtype.itemsize
        return max(1, nbytes // max(1, width * MX_BLOCK)) * MX_BLOCK

    def _decode_weight(self, weight: Array, scale: NDArray[Any], rows: slice, k_first: bool) -> NDArray[Any]:
        """w · ws of some rows, in a buffer used again and again: fresh pages cost more than decoding.

        Few rows at a time, so that they are still in the core's own cache when they are scaled.
        """
        width = weight.shape[1] * number_format(self._weight_type).per_byte
        shape = (rows.stop - rows.start, width)
        if self._buffer.size < prod(shape):
            self._buffer = np.empty(prod(shape), self._dtype)
        block = self._buffer[: prod(shape)].reshape(shape)
        step = self._rows_within(_CACHE_BYTES, weight)
        for first in range(rows.start, rows.stop, step):
            last = min(first + step, rows.stop)
            values = block[first - rows.start : last - rows.start]
            decode_bytes(weight[first:last], self._weight_type, self._dtype, values)
            if k_first:
                scale_rows(values, scale[first // MX_BLOCK : -(-last // MX_BLOCK)])
            else:
                scale_columns(values, scale[first:last])
        return block

    def _absolute(self, block: NDArray[Any]) -> NDArray[np.float32]:
        """|block| as float32; in place where the type allows it, for nobody needs the block any more."""
        if block.dtype == np.float32:
            return np.asarray(np.abs(block, out=block))
        if self._sizes.size < block.size:
            self._sizes = np.empty(block.size, np.float32)
        flat = self._sizes[: block.size]
        sizes = flat.reshape(block.shape) if block.flags.c_contiguous else flat.reshape(block.shape[::-1]).T
        return np.asarray(np.abs(block, out=sizes, casting="same_kind"))

    def _weight(self, group: int) -> tuple[Array, bool]:
        """One expert's weight bytes as a row-major matrix, and whether its rows are k (else n)."""
        weight = self._operands.arrays["x2"][group]
        k_first = not self._operands.problem.attributes.transpose_x2
        if not weight.flags.c_contiguous and is_dense(weight):
            return weight.T, not k_first
        return np.ascontiguousarray(weight), k_first

    def _scale(self, group: int, k_first: bool) -> NDArray[Any]:
        """One expert's decoded scales: (⌈k/32⌉, n) where the weight's rows are k, else (n, ⌈k/32⌉).

        The bytes are turned before they are decoded: there are a quarter or an eighth as many.
        """
        codes = self._operands.arrays["scale"][group].view(np.uint8)
        if not self._operands.problem.attributes.transpose_x2:
            codes = codes.swapaxes(0, 1)
        n, pairs, _ = codes.shape
        if k_first:
            return self._decode_scale(codes.transpose(1, 2, 0).reshape(2 * pairs, n)[: self._blocks])
        return self._decode_scale(codes.reshape(n, 2 * pairs)[:, : self._blocks])


def scale_columns(values: NDArray[Any], scales: NDArray[Any]) -> None:
    """Multiply ``values`` (rows, k) in place by ``scales`` (rows, ⌈k/32⌉), one for each 32 columns."""
    whole = values.shape[1] // MX_BLOCK
    head = values[:, : whole * MX_BLOCK]
    blocks = np.lib.stride_tricks.as_strided(
        head, (len(values), whole, MX_BLOCK), (values.strides[0], MX_BLOCK * values.itemsize, values.itemsize)
    )
    blocks *= scales[:, :whole, None]
    if whole < scales.shape[1]:
        values[:, whole * MX_BLOCK :] *= scales[:, whole, None]


def scale_rows(values: NDArray[Any], scales: NDArray[Any]) -> None:
    """Multiply ``values`` (k, columns) in place by ``scales`` (⌈k/32⌉, columns), one for each 32 rows."""
    whole = len(values) // MX_BLOCK
    blocks = values[: whole * MX_BLOCK].reshape(whole, MX_BLOCK, values.shape[1])
    blocks *= scales[:whole, None]
    values[whole * MX_BLOCK :] *= scales[whole:]


def decode_bytes(
    codes: Array, dtype: str, target: np.dtype[Any], out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Values of FP8, E8M0 or packed FP4 codes, in ``out`` where given, which is contiguous; the last axis
    doubles for FP4.

    Bytes are looked up two at a time where rows allow it: one table access gives two (FP8) or four
    (FP4) values.
    """
    raw = np.ascontiguousarray(codes).view(np.uint8)
    shape = (*raw.shape[:-1], raw.shape[-1] * number_format(dtype).per_byte)
    if raw.shape[-1] % 2 == 0 and raw.size > 1 << 16:
        raw = raw.view(np.uint16)
    table = _group_table(dtype, raw.dtype.itemsize, target)
    target_records = None if out is None else out.reshape(-1).view(table.dtype)
    flat = np.take(table, raw.reshape(-1), mode="clip", out=target_records)
    return flat.view(target).reshape(shape)


@cache
def _group_table(dtype: str, nbytes: int, target: np.dtype[Any]) -> NDArray[Any]:
    """For each group of ``nbytes`` bytes the values that they hold, as one fixed-size record."""
    values = decode_table(dtype).astype(target)
    codes = np.arange(1 << (8 * nbytes), dtype=np.uint32)
    bits = number_format(dtype).bits
    columns = [(codes >> shift) & ((1 << bits) - 1) for shift in range(0, 8 * nbytes, bits)]
    table = np.ascontiguousarray(values[np.stack(columns, axis=-1)])
    width = table.shape[1] * table.itemsize
    records: dict[int, Any] = {4: np.float32, 8: np.complex64, 16: np.complex128}
    return np.asarray(table.view(records.get(width, np.dtype((np.void, width)))).reshape(-1))
