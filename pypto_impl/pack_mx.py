"""Kernel arguments of the MX paths: activations, weights and scales brought to the layout the kernel reads.

PyPTO's scaled product takes K in multiples of 64. Where K is none, data is padded with zeros, which decode to
zero, and every scale slot that belongs to no data is set to 127 (2^0): whatever the caller left in a padding
slot, NaN included, cannot reach a result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pypto_impl.call import Array, KernelArgument, KernelCall, KernelSpec, as_argument
from pypto_impl.groups import read_groups
from pypto_impl.tiling import Tiles, round_up
from reference.operands import Operands

Bytes = NDArray[np.uint8]
ONE = 127  # the E8M0 byte of 2^0


def pack_mx(operands: Operands, spec: KernelSpec) -> KernelCall:
    """The call of kernel ``mx`` for checked operands. Raises ValueError for impossible routing values."""
    problem, arrays = operands.problem, operands.arrays
    packed = spec.element == "float4_e2m1fn"
    counts, starts = read_groups(
        arrays["group_list"],
        problem.attributes.group_list_type,
        arrays["row_index"],
        problem.m,
        problem.batch,
    )
    activations = element_bytes(arrays["x1"], packed)
    weights = element_bytes(expert_matrices(operands, "x2"), packed)
    scales = as_bytes(expert_matrices(operands, "scale"))
    pair_axis = 2 if spec.transpose_x2 else 1
    k = problem.k
    arguments = (
        as_argument("x1", pad_axis(activations, 1, spec.k), spec.element),
        as_argument("x2", fold_experts(pad_axis(weights, pair_axis, spec.k)), spec.element),
        as_argument("scale", fold_experts(clear_padding(scales, pair_axis, k)), "float8_e8m0fnu"),
        as_argument(
            "pertoken_scale", clear_padding(as_bytes(arrays["pertoken_scale"]), 1, k), "float8_e8m0fnu"
        ),
        as_argument("logit", arrays["logit"].reshape(-1, 1), "float32"),
        as_argument("row_index", arrays["row_index"], "int64"),
        as_argument("counts", counts, "int32"),
        as_argument("starts", starts, "int32"),
        as_argument(
            "bias", arrays["bias"] if spec.has_bias else np.zeros((1, spec.n), np.uint16), "bfloat16"
        ),
        *shared_arguments(operands, spec),
    )
    return KernelCall(spec, arguments)


def describe_mx(operands: Operands, tiles: Tiles) -> KernelSpec:
    """What the MX kernel is compiled for."""
    problem = operands.problem
    return KernelSpec(
        kernel="mx",
        element=problem.spec("x1").dtype,
        k=round_up(problem.k, 64),
        n=problem.n,
        e=problem.e,
        batch=problem.batch,
        transpose_x2=problem.attributes.transpose_x2 or problem.spec("x2").is_transposed,
        has_bias=problem.arguments["bias"] is not None,
        has_offset=False,
        has_shared=has_shared_rows(operands),
        tiles=tiles,
    )


def has_shared_rows(operands: Operands) -> bool:
    """Whether there is a shared input with at least one row."""
    shared = operands.problem.arguments["shared_input"]
    return shared is not None and shared.shape[0] > 0


def shared_arguments(operands: Operands, spec: KernelSpec) -> tuple[KernelArgument, ...]:
    """shared_input with the weight and the target row of each of its rows, and the zeroed ``out``."""
    attributes = operands.problem.attributes
    shared = operands.arrays["shared_input"] if spec.has_shared else np.zeros((1, spec.n), np.uint16)
    rows = attributes.shared_input_offset + np.arange(shared.shape[0], dtype=np.int64)
    weight = np.full((shared.shape[0], 1), attributes.shared_input_weight, np.float32)
    return (
        as_argument("shared_input", shared, "bfloat16"),
        as_argument("shared_weight", weight, "float32"),
        as_argument("shared_rows", rows, "int64"),
        as_argument("out", np.zeros((spec.batch, spec.n), np.float32), "float32"),
    )


def expert_matrices(operands: Operands, name: str) -> Array:
    """x2 or scale as a contiguous array whose axes 1 and 2 are in memory order of the weight.

    A weight that is transposed by its strides alone becomes (e, n, k), and its scale (e, n, ceil(k/64), 2).
    """
    problem, array = operands.problem, operands.arrays[name]
    if not problem.attributes.transpose_x2 and problem.spec("x2").is_transposed:
        array = array.swapaxes(1, 2)
    return np.ascontiguousarray(array)


def as_bytes(array: Array) -> Bytes:
    """The bytes of an array of one-byte elements."""
    octets: Bytes = np.ascontiguousarray(array).view(np.uint8)
    return octets


def element_bytes(array: Array, packed: bool) -> Bytes:
    """One byte per element. ``packed``: two FP4 codes share a byte along the last axis, the even one low."""
    octets = as_bytes(array)
    if not packed:
        return octets
    codes = np.empty((*octets.shape[:-1], octets.shape[-1] * 2), np.uint8)
    codes[..., 0::2] = octets & 15
    codes[..., 1::2] = octets >> 4
    return codes


def pad_axis(array: Bytes, axis: int, length: int) -> Bytes:
    """``array`` with zeros appended along ``axis`` up to ``length``."""
    missing = length - array.shape[axis]
    if missing == 0:
        return array
    widths = [(0, missing if position == axis else 0) for position in range(array.ndim)]
    padded: Bytes = np.pad(array, widths)
    return padded


def clear_padding(scales: Bytes, pair_axis: int, k: int) -> Bytes:
    """A copy whose last slot is 2^0 where it scales no data: the number of blocks of 32 is odd."""
    if -(-k // 32) % 2 == 0:
        return scales
    cleared: Bytes = scales.copy()
    np.moveaxis(cleared, pair_axis, 0)[-1, ..., 1] = ONE
    return cleared


def fold_experts(array: Array) -> Array:
    """(e, a, ...) as (e * a, ...)."""
    folded: Array = array.reshape(-1, *array.shape[2:])
    return folded
