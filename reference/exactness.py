"""Whether a call's data leave float32 no room for rounding: then results must match bit for bit.

Every operand value is a multiple of a power of two.  If the sum of the absolute values of all terms of
each output element stays below 2^24 of the smallest multiple that a term can have, every partial sum, in
any order, is a float32 number, and so is every product before it.  Integer-valued test data have this
property; quantised real data do not, which a look at the first expert usually shows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference.formats import MX_BLOCK, decode_table, number_format
from reference.operands import Array, Operands

#: Exponent of "no restriction": what an all-zero operand asks for.
_ANY = 1 << 20
_MANTISSA = 24


def sums_are_exact(operands: Operands, counts: NDArray[np.int64], magnitude: NDArray[np.float32]) -> bool:
    """Whether float32 represents every partial sum of every output element exactly, in any order.

    ``counts`` (e,) are the rows per expert, ``magnitude`` (batch, n) the golden's sums of absolute terms.
    """
    if magnitude.size == 0:
        return True
    largest = float(magnitude.max())
    if not np.isfinite(largest) or largest == 0.0:
        return largest == 0.0
    # float32 magnitudes carry a relative error of their own.
    needed = int(np.frexp(largest * (1 + 2.0**-8))[1]) - _MANTISSA
    shared = _shared_unit(operands)
    if shared < needed:
        return False
    total = int(counts.sum())
    factor = _unit(operands.arrays["logit"][:total])
    if operands.problem.platform_row.family == "a2a3":
        return factor + _w4a8_unit(operands, counts, total) >= needed
    return _mx_unit_reaches(operands, counts, total, needed - factor)


def _unit(values: Array) -> int:
    """Exponent of the largest power of two of which all ``values`` are multiples."""
    wide = np.asarray(values).astype(np.float64)
    mantissa, exponent = np.frexp(wide[wide != 0])
    if not mantissa.size:
        return _ANY
    if not np.isfinite(mantissa).all():
        return -_ANY
    integers = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = integers & -integers
    return int((exponent + np.log2(lowest).astype(np.int64) - 53).min())


def _shared_unit(operands: Operands) -> int:
    shared = operands["shared_input"]
    if shared is None:
        return _ANY
    return _unit(shared) + _unit(np.array([operands.attributes.shared_input_weight], np.float32))


def _w4a8_unit(operands: Operands, counts: NDArray[np.int64], total: int) -> int:
    """Exponent of the unit of an A2/A3 row before its logit."""
    from reference.golden_w4a8 import quant_vector

    busy = counts > 0
    units = [_unit(quant_vector(operands.arrays["scale"][busy])), _unit(operands.arrays["bias"][busy])]
    if operands["offset"] is not None:
        units.append(_unit(operands.arrays["offset"][busy]))
    return min(units) + _unit(operands.arrays["pertoken_scale"][:total])


def _mx_unit_reaches(operands: Operands, counts: NDArray[np.int64], total: int, needed: int) -> bool:
    """Whether the unit of an MX row before its logit has at least exponent ``needed``."""
    problem = operands.problem
    busy = np.flatnonzero(counts).tolist()
    if operands["bias"] is not None and _unit(operands.arrays["bias"][busy]) < needed:
        return False
    x_scale = operands.arrays["pertoken_scale"][:total]
    x_unit = _scaled_unit(operands.arrays["x1"][:total], problem.spec("x1").dtype, x_scale)
    for group in busy:
        weight, scale = operands.arrays["x2"][group], operands.arrays["scale"][group]
        if not problem.attributes.transpose_x2:
            scale = scale.swapaxes(0, 1)
        if x_unit + _weight_unit(weight, problem.spec("x2").dtype, scale, problem.k) < needed:
            return False
    return True


def _weight_unit(weight: Array, dtype: str, scale: Array, k: int) -> int:
    """A lower bound of the unit's exponent for one expert: smallest element unit and smallest scale."""
    if scale.size == 0:
        return _ANY
    scales = scale.reshape(scale.shape[0], -1)[:, : -(-k // MX_BLOCK)].view(np.uint8)
    if (scales == 255).any():
        return -_ANY
    return _code_unit(weight, dtype) + int(scales.min()) - 127


def _scaled_unit(codes: Array, dtype: str, scale: Array) -> int:
    """As :func:`_weight_unit`, for the rows of x1."""
    return _weight_unit(codes, dtype, scale, codes.shape[1] * number_format(dtype).per_byte)


def _code_unit(codes: Array, dtype: str) -> int:
    """Exponent of the unit of the elements that ``codes`` hold."""
    fmt = number_format(dtype)
    present = np.bincount(np.ascontiguousarray(codes).view(np.uint8).reshape(-1), minlength=256)
    used = np.flatnonzero(present)
    if fmt.per_byte == 2:
        used = np.unique(np.concatenate([used & 0xF, used >> 4]))
    return _unit(decode_table(dtype)[used])
