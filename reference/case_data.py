"""Operands for the named cases: values in the ranges of real models, never constant.

Activations and weights look like quantised normal data, scales lie around one, weights of a token sum
to one, tail rows are poisoned, and each call holds one all-zero block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from reference.compensation import make_bias
from reference.formats import MX_BLOCK, decode_table, number_format, numpy_dtype
from reference.operands import Array, Operands
from reference.routing_patterns import Routing, route_counts, route_tokens

if TYPE_CHECKING:
    from reference.cases import Case

_POOL = 1 << 22  # random bytes drawn for one operand
#: The largest element of the generated data stands for this many standard deviations.
_TAIL = 3.2


def mx_operands(rng: np.random.Generator, case: Case) -> Operands:
    """Operands of an MXFP8 or MXFP4 case.

    Options: ``x1``/``x2`` element format, ``transpose_x2``, ``counts`` (else routed from top-k),
    ``group_list_type``, ``bias``, ``shared_rows``/``shared_offset``/``shared_weight``, ``padding`` (byte in
    padding scale slots, default 127), ``integers`` (small integers and scales of one: exact sums).
    """
    options = case.options
    default = "float4_e2m1fn" if case.path == "mxfp4" else "float8_e4m3fn"
    transposed = bool(options.get("transpose_x2"))
    pairs = -(-case.k // (2 * MX_BLOCK))
    routing = _routing(rng, case)
    weight_shape = (case.e, case.n, case.k) if transposed else (case.e, case.k, case.n)
    scale_shape = (case.e, case.n, pairs, 2) if transposed else (case.e, pairs, case.n, 2)
    x1_type, x2_type = options.get("x1", default), options.get("x2", default)
    integers = bool(options.get("integers"))
    x1 = _elements(rng, (case.m, case.k), x1_type, integers)
    x2 = _elements(rng, weight_shape, x2_type, integers)
    per_byte = number_format(x1_type).per_byte
    x1[: case.m // 2 + 1, : MX_BLOCK // per_byte] = 0
    scale = _scales(rng, scale_shape, x2_type, integers)
    pertoken_scale = _scales(rng, (case.m, pairs, 2), x1_type, integers)
    if -(-case.k // MX_BLOCK) % 2:
        padding = options.get("padding", 127)
        pertoken_scale[:, -1, 1] = padding
        (scale[:, :, -1, 1] if transposed else scale[:, -1, :, 1])[...] = padding
    call: dict[str, Any] = {
        "x1": x1,
        "x2": x2,
        "scale": scale.view(ml_dtypes.float8_e8m0fnu),
        "pertoken_scale": pertoken_scale.view(ml_dtypes.float8_e8m0fnu),
        "transpose_x2": transposed,
        "dtypes": {"x1": x1_type, "x2": x2_type},
        **_routed(routing, options, integers),
        **_shared(rng, case),
    }
    if options.get("bias"):
        call["bias"] = (0.5 * rng.standard_normal((case.e, case.n))).astype(ml_dtypes.bfloat16)
    return Operands.from_arrays(platform=case.platform, batch=case.batch, **call)


def w4a8_operands(rng: np.random.Generator, case: Case) -> Operands:
    """Operands of a W4A8 case.

    Options: ``counts``, ``group_list_type``, ``offset``, ``shared_*``, ``tuning_config``.  The bias is the
    compensation 8·Σ_k w·s; scales are exact in the 19 bits that the device reads.
    """
    options = case.options
    x1 = np.clip(np.rint(rng.normal(0, 30, (case.m, case.k))), -127, 127).astype(np.int8)
    if case.m:
        x1[0, :2] = -128, 127
    x2 = rng.integers(-(2**31), 2**31, (case.e, case.k, case.n // 8), dtype=np.int64).astype(np.int32)
    scale = np.exp(rng.uniform(np.log(1e-4), np.log(2e-2), (case.e, 1, case.n))).astype(np.float32)
    scale[0, 0, 0] = 0.1
    packed = (scale.view(np.uint32) & np.uint32(0xFFFFE000)).astype(np.int64)
    call: dict[str, Any] = {
        "x1": x1,
        "x2": x2,
        "scale": packed,
        "bias": make_bias(x2, packed),
        "pertoken_scale": np.exp(rng.uniform(np.log(1e-3), np.log(0.5), case.m)).astype(np.float32),
        "tuning_config": options.get("tuning_config"),
        **_routed(_routing(rng, case), options, integers=False),
        **_shared(rng, case),
    }
    if options.get("offset"):
        call["offset"] = (rng.uniform(-2, 2, scale.shape) * scale).astype(np.float32)
    return Operands.from_arrays(platform=case.platform, batch=case.batch, **call)


def _routing(rng: np.random.Generator, case: Case) -> Routing:
    counts = case.options.get("counts")
    if counts is not None:
        return route_counts(rng, counts, case.m, case.batch)
    if case.m == 0 or case.m % case.batch:
        return route_counts(rng, [case.m // case.e] * case.e, case.m, case.batch)
    if case.m // case.batch > case.e:  # more rows per token than experts: fill the experts evenly
        share, rest = divmod(case.m, case.e)
        return route_counts(rng, [share + (g < rest) for g in range(case.e)], case.m, case.batch)
    return route_tokens(rng, case.batch, case.m // case.batch, case.e)


def _routed(routing: Routing, options: dict[str, Any], integers: bool) -> dict[str, Any]:
    kind = options.get("group_list_type", 1)
    return {
        "group_list": routing.counts if kind == 1 else np.cumsum(routing.counts),
        "group_list_type": kind,
        "row_index": routing.row_index,
        "logit": np.float32(2) ** np.rint(4 * routing.logit - 2) if integers else routing.logit,
    }


def _shared(rng: np.random.Generator, case: Case) -> dict[str, Any]:
    rows = case.options.get("shared_rows", 0)
    if not rows:
        return {}
    return {
        "shared_input": rng.standard_normal((rows, case.n), dtype=np.float32).astype(ml_dtypes.bfloat16),
        "shared_input_offset": case.options.get("shared_offset", 0),
        "shared_input_weight": case.options.get("shared_weight", 1.0),
    }


def _elements(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, integers: bool) -> Array:
    """Codes of quantised normal data (or small integers), drawn through a table of quantiles."""
    fmt = number_format(dtype)
    table = _integer_codes(dtype) if integers else _normal_codes(dtype)
    width, rows = shape[-1] // fmt.per_byte, math.prod(shape[:-1])
    size = min(rows * width, _POOL + width)
    codes = np.take(table, rng.integers(0, 1 << 16, size * fmt.per_byte, dtype=np.uint16), mode="clip")
    pool = codes if fmt.per_byte == 1 else codes[0::2] | codes[1::2] << 4
    if rows * width > size:  # large operands: each row is a window into the pool at a place of its own
        windows = np.lib.stride_tricks.sliding_window_view(pool, width)
        pool = windows[rng.integers(0, len(windows), rows)]  # np.take would copy every window first
    return pool.reshape(*shape[:-1], width).view(numpy_dtype(dtype))


def _scales(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, integers: bool
) -> NDArray[np.uint8]:
    """E8M0 bytes with which the elements have a deviation from 1/8 to 8; of 1 for integers."""
    middle = 127 if integers else 127 - round(math.log2(_largest(dtype) / _TAIL))
    reach = 0 if integers else 3
    return rng.integers(middle - reach, middle + reach + 1, shape, dtype=np.uint8)


def _largest(dtype: str) -> float:
    """The largest element of the generated data, which quantisation keeps below 448 in every FP8 format."""
    values = decode_table(dtype)
    return min(float(values[np.isfinite(values)].max()), 448.0)


@cache
def _normal_codes(dtype: str) -> NDArray[np.uint8]:
    """Codes of 65536 quantiles of a normal distribution whose tail reaches the format's largest value."""
    values = decode_table(dtype)
    finite = np.flatnonzero(np.isfinite(values))
    largest = _largest(dtype)
    normal = NormalDist()
    quantiles = np.array([normal.inv_cdf((i + 0.5) / 1024) for i in range(1024)])
    fine = np.interp(np.arange(1 << 16) / 64, np.arange(1024), quantiles) * largest / _TAIL
    order = finite[np.argsort(values[finite], kind="stable")]
    ordered = values[order]
    middle = (ordered[1:] + ordered[:-1]) / 2
    nearest = np.searchsorted(middle, np.clip(fine, -largest, largest))
    return np.asarray(order[nearest], np.uint8)


@cache
def _integer_codes(dtype: str) -> NDArray[np.uint8]:
    """Codes of -4 … 4, which every element format holds exactly."""
    values = decode_table(dtype)
    codes = [int(np.flatnonzero(values == number)[0]) for number in range(-4, 5)]
    return np.resize(np.array(codes, np.uint8), 1 << 16)


def _w0(first: tuple[int, int], second: tuple[int, int]) -> Operands:
    """k = 256 rows of int4 weights that alternate along n, for two experts; activations 1, 2, 3, 4."""
    nibbles = np.array([first * 4, second * 4], np.int64) & 0xF
    words = (nibbles << (4 * np.arange(8))).sum(axis=1).astype(np.uint32).view(np.int32)
    scale = np.repeat(np.array([[[0.5]], [[0.25]]], np.float32), 128, axis=2)
    weights = np.resize(np.array(first), 128), np.resize(np.array(second), 128)
    return Operands.from_arrays(
        platform="atlas_a2",
        batch=2,
        x1=np.repeat(np.arange(1, 5, dtype=np.int8)[:, None], 256, axis=1),
        x2=np.broadcast_to(words[:, None, None], (2, 256, 16)),
        scale=scale.view(np.uint32).astype(np.int64),
        bias=(8 * 256 * np.array(weights) * scale[:, 0]).astype(np.float32),
        pertoken_scale=np.ones(4, np.float32),
        group_list=np.array([2, 2]),
        row_index=np.array([0, 1, 1, 0]),
        logit=np.array([0.5, 0.25, 0.75, 0.25], np.float32),
    )


def _m0() -> Operands:
    """x = w = 1, k = 64, all four scale slots 1.0: every element of out is 64."""
    one, scale_one = np.uint8(0x38), np.uint8(127)
    return Operands.from_arrays(
        platform="ascend950",
        batch=1,
        x1=np.full((1, 64), one),
        x2=np.full((1, 64, 64), one),
        scale=np.full((1, 1, 64, 2), scale_one),
        pertoken_scale=np.full((1, 1, 2), scale_one),
        group_list=np.array([1]),
        row_index=np.array([0]),
        logit=np.ones(1, np.float32),
        dtypes={
            "x1": "float8_e4m3fn",
            "x2": "float8_e4m3fn",
            "scale": "float8_e8m0fnu",
            "pertoken_scale": "float8_e8m0fnu",
        },
    )


HAND_MADE: dict[str, Callable[[], Operands]] = {
    "w0": lambda: _w0((1, 1), (-2, -2)),
    "c1": lambda: _w0((1, 1), (-2, -2)),
    "w1": lambda: _w0((1, 3), (-2, 5)),
    "m0": _m0,
}
