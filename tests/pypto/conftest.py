"""Small calls of the operator, and what they must give, computed here in float64 and by no other part."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from pypto_impl import Result, availability, run
from reference.operands import Operands

E8M0 = ml_dtypes.float8_e8m0fnu
FP4_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
FLOATS = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


@pytest.fixture(scope="session")
def interpreter() -> None:
    """Skip without PyPTO; with it, anything that keeps it from running is a failure."""
    if importlib.util.find_spec("pypto") is None:
        pytest.skip(availability("ascend950"))
    assert availability("ascend950") is None


@dataclass(frozen=True)
class Expected:
    """The exact result, and the sum of the absolute values of its terms."""

    out: NDArray[np.float64]
    magnitude: NDArray[np.float64]

    def assert_close(self, out: NDArray[np.float32]) -> None:
        """float32 arithmetic on these terms gives ``out``."""
        assert out.shape == self.out.shape
        assert out.dtype == np.float32
        np.testing.assert_array_less(np.abs(out - self.out), 2e-6 * self.magnitude + 1e-30)

    def assert_equal(self, out: NDArray[np.float32]) -> None:
        """``out`` is exact, bit for bit."""
        np.testing.assert_array_equal(out, self.out.astype(np.float32))


def starts_of(counts: Sequence[int]) -> list[int]:
    """First row of every expert."""
    return [sum(counts[:expert]) for expert in range(len(counts))]


def add_experts(operands: Operands, counts: Sequence[int], parts: Callable[[int, slice], Any]) -> Expected:
    """The shared input, then for every expert ``parts(expert, rows)``: values and magnitudes [rows, n]."""
    attributes = operands.problem.attributes
    n, batch = operands.problem.n, operands.problem.batch
    out, magnitude = np.zeros((batch, n)), np.zeros((batch, n))
    shared = operands.shared_input
    if shared is not None:
        first = attributes.shared_input_offset
        out[first : first + len(shared)] = shared.astype(np.float64) * attributes.shared_input_weight
        magnitude += np.abs(out)
    for expert, (start, count) in enumerate(zip(starts_of(counts), counts, strict=True)):
        rows = slice(start, start + count)
        values, sizes = parts(expert, rows)
        logit = operands.logit[rows, None].astype(np.float64)
        np.add.at(out, operands.row_index[rows], values * logit)
        np.add.at(magnitude, operands.row_index[rows], sizes * np.abs(logit))
    return Expected(out, magnitude)


def read_counts(operands: Operands) -> list[int]:
    """Rows per expert, from either kind of group list."""
    listed = [int(value) for value in operands.group_list]
    if operands.problem.attributes.group_list_type == 1:
        return listed
    return [after - before for before, after in zip([0, *listed], listed, strict=False)]


def block_scales(scales: NDArray[Any], k: int) -> NDArray[np.float64]:
    """E8M0 pairs [r, pairs, 2] as one factor for each of the ``k`` elements of a row."""
    codes = scales.view(np.uint8).reshape(scales.shape[0], -1).astype(np.float64)
    factors = np.where(codes == 255, np.nan, 2.0 ** (codes - 127))
    return np.repeat(factors, 32, axis=1)[:, :k]


def element_values(array: NDArray[Any], packed: bool) -> NDArray[np.float64]:
    """FP8 by ml_dtypes; two FP4 codes in a byte along the last axis by the table above, the even one low."""
    if not packed:
        return array.astype(np.float64)
    codes = np.stack([array & 15, array >> 4], axis=-1)
    return FP4_VALUES[codes.reshape(*array.shape[:-1], -1)]


def expect_mx(operands: Operands) -> Expected:
    """The MX operator in float64."""
    problem = operands.problem
    packed, k = problem.spec("x1").dtype == "float4_e2m1fn", problem.k
    strided = problem.spec("x2").is_transposed
    scaled = element_values(operands.x1, packed) * block_scales(operands.pertoken_scale, k)

    def parts(expert: int, rows: slice) -> Any:
        weights, scales = operands.x2[expert], operands.scale[expert]
        if strided:
            weights, scales = weights.T, scales.swapaxes(0, 1)
        values = element_values(np.ascontiguousarray(weights), packed)
        transposed = problem.attributes.transpose_x2 or strided
        if not transposed:
            values, scales = values.T, scales.swapaxes(0, 1)
        matrix = (values * block_scales(np.ascontiguousarray(scales), k)).T
        bias = 0.0 if operands.bias is None else operands.bias[expert].astype(np.float64)
        return scaled[rows] @ matrix + bias, np.abs(scaled[rows]) @ np.abs(matrix) + np.abs(bias)

    return add_experts(operands, read_counts(operands), parts)


def int4_values(words: NDArray[np.int32]) -> NDArray[np.int64]:
    """INT4 (k, n) from INT32 (k, n/8), element j of a word in bits 4j to 4j+3."""
    nibbles = (words.astype(np.int64)[..., None] >> np.arange(0, 32, 4)) & 15
    return np.where(nibbles > 7, nibbles - 16, nibbles).reshape(*words.shape[:-1], -1)


def expect_w4a8(operands: Operands) -> Expected:
    """The W4A8 operator in float64: ((x·w - 8·Σw)·s + bias + offset·Σx)·pertoken."""

    def parts(expert: int, rows: slice) -> Any:
        x = operands.x1[rows].astype(np.float64)
        weights = int4_values(operands.x2[expert]).astype(np.float64)
        scale = operands.scale[expert, 0].astype(np.uint32).view(np.float32).astype(np.float64)
        pertoken = operands.pertoken_scale[rows, None].astype(np.float64)
        bias = operands.bias[expert].astype(np.float64)
        offset = 0.0 if operands.offset is None else operands.offset[expert].astype(np.float64)
        values = (x @ weights - 8 * weights.sum(0)) * scale + bias + x.sum(1, keepdims=True) * offset
        sizes = (np.abs(x) @ np.abs(weights) + 8 * np.abs(weights.sum(0))) * np.abs(scale) + np.abs(bias)
        sizes += np.abs(x).sum(1, keepdims=True) * np.abs(offset)
        return values * pertoken, sizes * np.abs(pertoken)

    return add_experts(operands, read_counts(operands), parts)


def expect(operands: Operands) -> Expected:
    """The operator in float64."""
    return expect_w4a8(operands) if operands.problem.spec("x1").dtype == "int8" else expect_mx(operands)


def common_arguments(
    rng: np.random.Generator,
    m: int,
    n: int,
    batch: int,
    counts: Sequence[int],
    *,
    shared: int = 0,
    integers: bool = False,
    rows: Sequence[int] | None = None,
    group_list_type: int = 1,
    shared_input_weight: float = 0.5,
    shared_input_offset: int = 0,
) -> dict[str, Any]:
    """Routing, logits and shared input. Rows beyond the groups are poisoned: no kernel may read them."""
    total = sum(counts)
    logit = rng.integers(-2, 3, m).astype(np.float32) if integers else rng.normal(0, 1, m).astype(np.float32)
    row_index = np.full(m, 2**40, np.int64)
    row_index[:total] = rng.integers(0, batch, total) if rows is None else rows
    logit[total:] = np.nan
    call: dict[str, Any] = {
        "group_list": np.cumsum(counts, dtype=np.int64)
        if group_list_type == 0
        else np.array(counts, np.int64),
        "group_list_type": group_list_type,
        "logit": logit,
        "row_index": row_index,
        "batch": batch,
    }
    if shared:
        values = rng.integers(-8, 9, (shared, n)) if integers else rng.normal(0, 1, (shared, n))
        call["shared_input"] = values.astype(ml_dtypes.bfloat16)
        call["shared_input_weight"] = shared_input_weight
        call["shared_input_offset"] = shared_input_offset
    return call


def mx_elements(
    rng: np.random.Generator, shape: tuple[int, ...], element: str, integers: bool
) -> NDArray[Any]:
    """FP8 values, or FP4 codes one to a byte."""
    if element == "float4_e2m1fn":
        codes = rng.integers(0, 16, shape)
        if integers:
            codes = np.array([0, 2, 4, 5, 6, 7, 10, 12, 13, 14])[rng.integers(0, 10, shape)]
        return codes.astype(np.uint8)
    values = rng.integers(-8, 9, shape) if integers else rng.normal(0, 2, shape)
    return values.astype(FLOATS[element])


def pack_pairs(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """FP4 codes two to a byte along the last axis, the even one low."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def make_mx(
    counts: Sequence[int],
    k: int = 64,
    n: int = 32,
    batch: int = 4,
    *,
    m: int | None = None,
    element: str = "float8_e4m3fn",
    layout: str = "plain",
    bias: bool = False,
    integers: bool = False,
    padding: int = 255,
    seed: int = 0,
    **routing: Any,
) -> Operands:
    """A call of the MX operator. ``layout``: ``plain`` (e, k, n), ``flag`` (e, n, k) or ``strides``.

    Slots that scale nothing hold ``padding``: 255 is NaN. Scales are powers of two from 2^-4 to 2^4, or 1 and
    2 for integers.
    """
    rng = np.random.default_rng(seed)
    e, m = len(counts), sum(counts) if m is None else m
    packed, pairs = element == "float4_e2m1fn", -(-k // 64)
    x1 = mx_elements(rng, (m, k), element, integers)
    x2 = mx_elements(rng, (e, n, k), element, integers)
    low, high = (127, 129) if integers else (123, 132)
    scale = rng.integers(low, high, (e, n, pairs, 2)).astype(np.uint8)
    pertoken_scale = rng.integers(low, high, (m, pairs, 2)).astype(np.uint8)
    pertoken_scale[sum(counts) :] = 255
    if -(-k // 32) % 2:
        scale[:, :, -1, 1] = padding
        pertoken_scale[:, -1, 1] = padding
    call = common_arguments(rng, m, n, batch, counts, integers=integers, **routing)
    if bias:
        values = rng.integers(-4, 5, (e, n)) if integers else rng.normal(0, 1, (e, n))
        call["bias"] = values.astype(ml_dtypes.bfloat16)
    if layout == "plain":
        x2, scale = np.ascontiguousarray(x2.swapaxes(1, 2)), np.ascontiguousarray(scale.swapaxes(1, 2))
    if packed:
        x1, x2 = pack_pairs(x1), pack_pairs(x2)
    if layout == "strides":
        x2, scale = x2.swapaxes(1, 2), scale.swapaxes(1, 2)
    dtypes = {"scale": "float8_e8m0fnu", "pertoken_scale": "float8_e8m0fnu"}
    if packed:
        dtypes |= {"x1": "float4_e2m1fn", "x2": "float4_e2m1fn"}
    return Operands.from_arrays(
        platform="ascend950",
        x1=x1,
        x2=x2,
        scale=scale,
        pertoken_scale=pertoken_scale,
        transpose_x2=layout == "flag",
        dtypes=dtypes,
        **call,
    )


def pack_words(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """INT4 values [.., n] as INT32 words [.., n/8]."""
    nibbles = (values & 15).reshape(*values.shape[:-1], -1, 8) << np.arange(0, 32, 4)
    return nibbles.sum(-1).astype(np.uint32).view(np.int32)


def make_w4a8(
    counts: Sequence[int],
    k: int = 192,
    n: int = 72,
    batch: int = 4,
    *,
    m: int | None = None,
    platform: str = "atlas_a2",
    offset: bool = False,
    integers: bool = False,
    seed: int = 0,
    **routing: Any,
) -> Operands:
    """A call of the W4A8 operator. Scales have at most 10 mantissa bits, as the output stage reads them."""
    rng = np.random.default_rng(seed)
    e, m = len(counts), sum(counts) if m is None else m
    size = 4 if integers else 128
    x1 = rng.integers(-size, size, (m, k)).astype(np.int8)
    values = rng.integers(-8, 8, (e, k, n))
    scale = np.full((e, n), 1.0) if integers else rng.uniform(0.001, 0.02, (e, n))
    scale = scale.astype(np.float16).astype(np.float32)
    pertoken = np.full(m, 2.0) if integers else rng.uniform(0.01, 0.5, m)
    pertoken[sum(counts) :] = np.nan
    call = common_arguments(rng, m, n, batch, counts, integers=integers, **routing)
    if offset:
        amounts = rng.integers(-2, 3, (e, 1, n)) if integers else rng.normal(0, 0.01, (e, 1, n))
        call["offset"] = amounts.astype(np.float32)
    return Operands.from_arrays(
        platform=platform,
        x1=x1,
        x2=pack_words(values),
        scale=scale.view(np.uint32).astype(np.int64).reshape(e, 1, n),
        bias=(8 * values.sum(1) * scale.astype(np.float64)).astype(np.float32),
        pertoken_scale=pertoken.astype(np.float32),
        **call,
    )


@dataclass(frozen=True)
class Path:
    """One way through the kernels: makes calls and computes them."""

    make: Callable[..., Operands]
    options: dict[str, Any]
    unpack: Any = "host"

    def __call__(self, *args: Any, **options: Any) -> Operands:
        """A call of this path."""
        return self.make(*args, **{**self.options, **options})

    def run(self, operands: Operands, **options: Any) -> Result:
        """Compute it on the interpreter."""
        return run(operands, on="interpreter", unpack=self.unpack, **options)


PATHS = {
    "mxfp8": Path(make_mx, {}),
    "mxfp8 transposed with bias": Path(make_mx, {"layout": "flag", "bias": True, "element": "float8_e5m2"}),
    "mxfp4": Path(make_mx, {"element": "float4_e2m1fn"}),
    "mxfp4 transposed with bias": Path(make_mx, {"layout": "flag", "bias": True, "element": "float4_e2m1fn"}),
    "w4a8 unpacked on the host": Path(make_w4a8, {}),
    "w4a8 unpacked in the kernel, with offset": Path(make_w4a8, {"offset": True}, "kernel"),
}


@pytest.fixture(params=PATHS.values(), ids=PATHS.keys())
def path(request: pytest.FixtureRequest) -> Path:
    """Each of the ways, one after the other."""
    way: Path = request.param
    return way


@pytest.fixture(scope="session", name="make_mx")
def make_mx_fixture() -> Callable[..., Operands]:
    """:func:`make_mx`."""
    return make_mx


@pytest.fixture(scope="session", name="make_w4a8")
def make_w4a8_fixture() -> Callable[..., Operands]:
    """:func:`make_w4a8`."""
    return make_w4a8


@pytest.fixture(scope="session", name="expect")
def expect_fixture() -> Callable[[Operands], Expected]:
    """:func:`expect`."""
    return expect
