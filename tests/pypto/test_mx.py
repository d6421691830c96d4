"""The MX kernel on PyPTO's interpreter: formats, layouts, padding, bias, shared input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pypto_impl import run
from reference.operands import Operands

pytestmark = pytest.mark.usefixtures("interpreter")
Maker = Callable[..., Operands]
ELEMENTS = ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]


def one_row(x: Any, w: Any, x_scale: list[int], w_scale: list[int]) -> Operands:
    """One row, one expert, 32 equal columns, K = 64, logit 1."""
    weights = np.repeat(np.asarray(w)[:, None], 32, axis=1)[None]
    return Operands.from_arrays(
        platform="ascend950",
        x1=np.asarray(x)[None],
        x2=weights,
        scale=np.tile(np.array(w_scale, np.uint8), (1, 1, 32, 1)),
        pertoken_scale=np.array([[x_scale]], np.uint8),
        dtypes={"scale": "float8_e8m0fnu", "pertoken_scale": "float8_e8m0fnu"},
        group_list=np.array([1], np.int64),
        logit=np.ones(1, np.float32),
        row_index=np.zeros(1, np.int64),
        batch=1,
    )


@pytest.mark.parametrize(
    ("x_scale", "w_scale", "expected"),
    [
        ([127, 127], [127, 127], 64.0),
        ([127, 128], [127, 127], 96.0),
        ([127, 127], [129, 127], 160.0),
        ([128, 127], [127, 129], 192.0),
        ([128, 127], [129, 127], 288.0),
        ([0, 127], [254, 127], 64.0),
    ],
)
def test_each_half_of_k_has_its_own_scale(x_scale: list[int], w_scale: list[int], expected: float) -> None:
    ones = np.ones(64, ml_dtypes.float8_e4m3fn)
    result = run(one_row(ones, ones, x_scale, w_scale), on="interpreter")
    assert set(result.out.reshape(-1)) == {expected}


def test_scale_255_is_nan() -> None:
    ones = np.ones(64, ml_dtypes.float8_e4m3fn)
    assert np.isnan(run(one_row(ones, ones, [255, 127], [127, 127]), on="interpreter").out).all()


@pytest.mark.parametrize(
    ("dtype", "exponent_bits", "bias"),
    [("float8_e4m3fn", 4, 7), ("float8_e5m2", 5, 15)],
    ids=["e4m3fn", "e5m2"],
)
def test_every_code_decodes_by_the_ocp_definition(dtype: str, exponent_bits: int, bias: int) -> None:
    """Each code times one, one row a code; the expected values come from the definition of the format."""
    codes = np.arange(256, dtype=np.uint8)
    mantissa_bits = 7 - exponent_bits
    exponent = (codes.astype(int) & 127) >> mantissa_bits
    fraction = (codes & ((1 << mantissa_bits) - 1)) / 2.0**mantissa_bits
    expected = np.where(
        exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias)
    )
    expected = np.where(codes & 128, -expected, expected)
    if dtype == "float8_e4m3fn":
        expected[(codes & 127) == 127] = np.nan
    else:
        expected[exponent == 31] = np.where(fraction[exponent == 31] > 0, np.nan, np.inf)
        expected[252] = -np.inf
    x1 = np.zeros((256, 64), np.uint8)
    x1[:, 5] = codes
    weights = np.zeros((1, 64, 32))
    weights[:, 5] = 1
    result = run(
        Operands.from_arrays(
            platform="ascend950",
            x1=x1,
            x2=weights.astype(getattr(ml_dtypes, dtype)),
            scale=np.full((1, 1, 32, 2), 127, np.uint8),
            pertoken_scale=np.full((256, 1, 2), 127, np.uint8),
            dtypes={"x1": dtype, "scale": "float8_e8m0fnu", "pertoken_scale": "float8_e8m0fnu"},
            group_list=np.array([256], np.int64),
            logit=np.ones(256, np.float32),
            row_index=np.arange(256),
            batch=256,
        ),
        on="interpreter",
    )
    np.testing.assert_array_equal(result.out[:, 0].astype(np.float64), expected)


def test_every_fp4_code_and_the_order_of_nibbles(make_mx: Maker) -> None:
    """x1 holds each code once, times a weight that is one at that position alone."""
    x1 = np.tile(np.arange(16, dtype=np.uint8), (1, 4))
    weights = np.zeros((1, 64, 64), np.uint8)
    weights[0, np.arange(64), np.arange(64)] = 2  # the code of 1.0
    result = run(
        Operands.from_arrays(
            platform="ascend950",
            x1=x1[:, 0::2] | (x1[:, 1::2] << 4),
            x2=weights[..., 0::2] | (weights[..., 1::2] << 4),
            scale=np.full((1, 1, 64, 2), 127, np.uint8),
            pertoken_scale=np.full((1, 1, 2), 127, np.uint8),
            dtypes=dict.fromkeys(("x1", "x2"), "float4_e2m1fn")
            | dict.fromkeys(("scale", "pertoken_scale"), "float8_e8m0fnu"),
            group_list=np.array([1], np.int64),
            logit=np.ones(1, np.float32),
            row_index=np.zeros(1, np.int64),
            batch=1,
        ),
        on="interpreter",
    )
    assert result.out[0, :16].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("layout", ["plain", "flag", "strides"])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
def test_formats_layouts_and_bias(
    make_mx: Maker, expect: Callable[..., Any], element: str, layout: str, bias: bool
) -> None:
    operands = make_mx([5, 0, 20, 3], k=128, n=48, element=element, layout=layout, bias=bias, m=32)
    expect(operands).assert_close(run(operands, on="interpreter").out)


@pytest.mark.parametrize("layout", ["plain", "flag"])
@pytest.mark.parametrize("k", [2, 32, 40, 96, 176, 352, 360, 1440])
def test_k_that_is_no_multiple_of_64(make_mx: Maker, expect: Callable[..., Any], layout: str, k: int) -> None:
    """Where the number of blocks is odd, the slot without data holds NaN."""
    for element in ("float8_e4m3fn", "float4_e2m1fn"):
        operands = make_mx([3, 2], k=k, layout=layout, element=element)
        expect(operands).assert_close(run(operands, on="interpreter").out)


def test_padding_slots_never_matter(make_mx: Maker) -> None:
    results = [
        run(make_mx([3, 2], k=32, padding=padding, integers=True), on="interpreter").out
        for padding in (0, 127, 254, 255)
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("n", [2, 8, 16, 66, 72, 130, 136, 520])
def test_any_even_n(make_mx: Maker, expect: Callable[..., Any], n: int) -> None:
    for element in ("float8_e4m3fn", "float4_e2m1fn"):
        operands = make_mx([3, 18], n=n, element=element, bias=True)
        expect(operands).assert_close(run(operands, on="interpreter").out)


def test_odd_n(make_mx: Maker, expect: Callable[..., Any]) -> None:
    operands = make_mx([3, 18], n=33, bias=True, shared=2)
    expect(operands).assert_close(run(operands, on="interpreter").out)


def test_bias_is_added_before_the_logit(make_mx: Maker) -> None:
    """x1 is zero, so each row gives bias times logit."""
    ones = np.zeros(64, ml_dtypes.float8_e4m3fn)
    call = one_row(ones, ones, [127, 127], [127, 127])
    operands = Operands.from_arrays(
        platform="ascend950",
        **{
            **call.arrays,
            "bias": np.full((1, 32), 3, ml_dtypes.bfloat16),
            "logit": np.array([0.25], np.float32),
        },
        batch=1,
    )
    assert set(run(operands, on="interpreter").out.reshape(-1)) == {0.75}


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_shared_rows_go_to_their_offset(path: Any, expect: Callable[..., Any], offset: int) -> None:
    operands = path([3, 5], batch=4, shared=2, shared_input_offset=offset, shared_input_weight=-1.5)
    expect(operands).assert_close(path.run(operands).out)


def test_more_shared_rows_than_a_tile(path: Any, expect: Callable[..., Any]) -> None:
    operands = path([3, 5], m=64, batch=50, shared=37, shared_input_offset=11)
    expect(operands).assert_close(path.run(operands).out)


def test_weight_zero_keeps_nan_of_the_shared_input(make_mx: Maker) -> None:
    operands = make_mx([1], batch=2, rows=[0], shared=2, shared_input_weight=0.0)
    shared = operands.shared_input.copy()
    shared[1, 3] = np.inf
    broken = Operands(operands.problem, {**operands.arrays, "shared_input": shared})
    out = run(broken, on="interpreter").out
    assert np.isnan(out[1, 3])
    assert np.isnan(out).sum() == 1


def test_logit_zero_keeps_nan_of_the_product(make_mx: Maker) -> None:
    ones = np.ones(64, ml_dtypes.float8_e4m3fn)
    call = one_row(ones, ones, [255, 127], [127, 127])
    operands = Operands(call.problem, {**call.arrays, "logit": np.zeros(1, np.float32)})
    assert np.isnan(run(operands, on="interpreter").out).all()


@pytest.mark.parametrize(("m", "batch"), [(0, 5), (4, 0)])
def test_nothing_to_launch_gives_the_initial_value(make_mx: Maker, m: int, batch: int) -> None:
    shared = min(batch, 2)
    operands = make_mx([0, 0], m=m, batch=batch, shared=shared, shared_input_offset=1 if shared else 0)
    result = run(operands, on="interpreter")
    assert not result.launched
    expected = np.zeros((batch, 32), np.float32)
    if shared:
        expected[1:3] = operands.shared_input.astype(np.float32) * np.float32(0.5)
    np.testing.assert_array_equal(result.out, expected)


def test_the_label_says_where_it_ran_and_every_product_is_counted(make_mx: Maker) -> None:
    first = run(make_mx([20, 0, 16], batch=4), on="interpreter")
    second = run(make_mx([20, 0, 16], batch=4), on="interpreter")
    assert first.device == "interpreter (PyPTO 0.2.0, DAV_3510)"
    assert first.tiles is not None
    assert first.tiles.rows == 16
    assert second.statistics["products"] - first.statistics["products"] == 3
