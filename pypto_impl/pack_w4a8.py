"""Kernel arguments of the W4A8 path on A2/A3.

x2 holds eight INT4 values in an INT32 word, element n % 8 = j in bits 4j to 4j+3, two's complement. Two
kernels read it: ``w4a8_host`` gets INT8 weights unpacked here, ``w4a8_planes`` gets the packed words as
they lie in memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pypto_impl.call import Array, KernelArgument, KernelCall, KernelSpec, as_argument
from pypto_impl.groups import read_groups
from pypto_impl.pack_mx import fold_experts, has_shared_rows, shared_arguments
from pypto_impl.tiling import Tiles
from reference.operands import Operands

PLANES = 4  # nibbles of an INT16 word: plane j holds the columns n with n % 4 == j
FLOAT_BITS = np.uint32(0xFFFFE000)  # the output stage reads sign, exponent and 10 mantissa bits of the scale


def describe_w4a8(operands: Operands, tiles: Tiles, kernel: str) -> KernelSpec:
    """What a W4A8 kernel (``w4a8_host`` or ``w4a8_planes``) is compiled for."""
    problem = operands.problem
    return KernelSpec(
        kernel=kernel,
        element="int8",
        k=problem.k,
        n=problem.n,
        e=problem.e,
        batch=problem.batch,
        transpose_x2=False,
        has_bias=problem.arguments["bias"] is not None,
        has_offset=problem.arguments["offset"] is not None,
        has_shared=has_shared_rows(operands),
        tiles=tiles,
    )


def pack_w4a8(operands: Operands, spec: KernelSpec) -> KernelCall:
    """The call of a W4A8 kernel for checked operands. Raises ValueError for impossible routing values."""
    problem, arrays = operands.problem, operands.arrays
    counts, starts = read_groups(
        arrays["group_list"],
        problem.attributes.group_list_type,
        arrays["row_index"],
        problem.m,
        problem.batch,
    )
    activations = (
        as_argument("x1", arrays["x1"], "int8"),
        *(pack_planes(operands, spec) if spec.kernel == "w4a8_planes" else pack_host(operands, spec)),
        as_argument("pertoken_scale", arrays["pertoken_scale"].reshape(-1, 1), "float32"),
        as_argument("logit", arrays["logit"].reshape(-1, 1), "float32"),
    )
    groups = (
        as_argument("ones", np.ones((16, spec.k), np.int8), "int8"),
        as_argument("counts", counts, "int32"),
        as_argument("starts", starts, "int32"),
    )
    row_index = as_argument("row_index", arrays["row_index"], "int64")
    shared = shared_arguments(operands, spec)
    if spec.kernel == "w4a8_planes":
        return KernelCall(
            spec, (*activations, plane_rows(row_index, spec), *groups, *map_planes(shared, spec))
        )
    shift = as_argument("shift", np.zeros((spec.e, spec.n), np.int32), "int32")
    return KernelCall(spec, (*activations, row_index, *groups, shift, *shared))


def pack_host(operands: Operands, spec: KernelSpec) -> tuple[KernelArgument, ...]:
    """x2 as INT8, and the rows of scale, bias and offset."""
    weights = fold_experts(unpack_int4(operands.arrays["x2"]))
    columns = per_column(operands, spec)
    return (as_argument("x2", weights, "int8"), *(as_argument(name, row, "float32") for name, row in columns))


def pack_planes(operands: Operands, spec: KernelSpec) -> tuple[KernelArgument, ...]:
    """x2 as it lies in memory, seen as INT16, and the rows of scale, bias and offset in the order of the
    planes.
    """
    words = fold_experts(np.ascontiguousarray(operands.arrays["x2"], "<i4").view("<i2"))
    columns = per_column(operands, spec)
    return (
        as_argument("x2", words, "int16"),
        *(as_argument(name, split_planes(row), "float32") for name, row in columns),
    )


def per_column(operands: Operands, spec: KernelSpec) -> list[tuple[str, Array]]:
    """scale, bias and offset as [e, n]; one row of zeros for an absent one, which no kernel reads."""
    arrays, absent = operands.arrays, np.zeros((1, spec.n), np.float32)
    return [
        ("scale", decode_scale(arrays["scale"])),
        ("bias", arrays["bias"] if spec.has_bias else absent),
        ("offset", arrays["offset"].reshape(spec.e, spec.n) if spec.has_offset else absent),
    ]


def decode_scale(scale: Array) -> NDArray[np.float32]:
    """[e, n] float32 from the INT64 quantisation words (e, 1, n).

    The float lies in the low 32 bits and counts to 10 mantissa bits (SetQuantVector's "FP19"); flags such
    as bit 46 that TransQuantParam sets are legal and ignored.
    """
    words = scale.reshape(scale.shape[0], scale.shape[-1]).astype(np.uint64)
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    floats: NDArray[np.float32] = (low & FLOAT_BITS).view(np.float32)
    return floats


def unpack_int4(words: Array) -> NDArray[np.int8]:
    """INT8 (e, k, n) from INT32 (e, k, n/8)."""
    unsigned = np.ascontiguousarray(words).view(np.uint32)
    values = np.empty((*words.shape[:-1], words.shape[-1] * 8), np.int8)
    for j in range(8):
        nibble = ((unsigned >> np.uint32(4 * j)) & np.uint32(15)).astype(np.int8)
        values[..., j::8] = nibble - 16 * (nibble > 7).astype(np.int8)
    return values


def split_planes(rows: Array) -> Array:
    """[r, n] with the columns of plane j moved to j * n/4."""
    count, n = rows.shape
    return np.ascontiguousarray(rows.reshape(count, n // PLANES, PLANES).swapaxes(1, 2).reshape(count, n))


def join_planes(out: Array, batch: int) -> Array:
    """[batch, n] from the [4 * batch, n/4] the kernel fills."""
    width = out.shape[1]
    planes = out.reshape(PLANES, batch, width).transpose(1, 2, 0)
    return np.ascontiguousarray(planes.reshape(batch, width * PLANES))


def stack_planes(rows: Array) -> Array:
    """[r, n] as [4 * r, n/4]: the inverse of :func:`join_planes`."""
    count, n = rows.shape
    planes = rows.reshape(count, n // PLANES, PLANES).transpose(2, 0, 1)
    return np.ascontiguousarray(planes.reshape(-1, n // PLANES))


def plane_rows(rows: KernelArgument, spec: KernelSpec) -> KernelArgument:
    """Row numbers of ``out``, once for every plane: plane j of row b is row j * batch + b."""
    planes = [rows.array + plane * spec.batch for plane in range(PLANES)]
    return KernelArgument(rows.name, np.concatenate(planes), rows.dtype)


def map_planes(shared: tuple[KernelArgument, ...], spec: KernelSpec) -> tuple[KernelArgument, ...]:
    """The shared input, its weights, its rows and ``out``, by plane."""
    values, weights, rows, out = shared
    return (
        as_argument(values.name, stack_planes(values.array), values.dtype),
        as_argument(weights.name, np.tile(weights.array, (PLANES, 1)), weights.dtype),
        plane_rows(rows, spec),
        as_argument(out.name, stack_planes(out.array), out.dtype),
    )
