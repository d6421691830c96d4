"""MX quantisation: rounding of scales, saturation, groups of zeros, layouts, padding, packing."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest

from reference import Operands, dequantise_mx, golden, quantise_mx

E4M3, E5M2, E2M1 = "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"
#: Largest value, mantissa bits, and smallest step of each element format.
FORMATS = {E4M3: (448.0, 3, 2.0**-9), E5M2: (57344.0, 2, 2.0**-16), E2M1: (6.0, 1, 0.5)}


def _group(amax: float, k: int = 32) -> np.ndarray:
    """One row whose first value is the largest."""
    x = np.linspace(-0.5, 0.5, k)
    x[0] = amax
    return x[None]


def _bytes(scale: np.ndarray) -> list[int]:
    return scale.view(np.uint8).reshape(-1).tolist()


@pytest.mark.parametrize(
    ("amax", "dtype", "floor", "ceil"),
    [
        (500.0, E4M3, 127, 128),
        (448.0, E2M1, 133, 134),
        (7.0, E2M1, 127, 128),
        (150.0, E4M3, 126, 126),
        (448.0, E4M3, 127, 127),  # the largest value itself needs no larger scale
        (6.0, E2M1, 127, 127),
        (1.0, E5M2, 112, 112),
        (61440.0, E5M2, 127, 128),
    ],
)
def test_scale_byte_by_rounding(amax: float, dtype: str, floor: int, ceil: int) -> None:
    assert _bytes(quantise_mx(_group(amax), dtype).scale) == [floor, 127]
    assert _bytes(quantise_mx(_group(amax), dtype, rounding="ceil").scale) == [ceil, 127]


@pytest.mark.parametrize(
    ("amax", "dtype", "clipped_to"),
    [(500.0, E4M3, 448.0), (-7.0, E2M1, -6.0), (7.9, E2M1, 6.0), (464.0, E4M3, 448.0)],
)
def test_floor_saturates_and_counts_and_ceil_does_not(amax: float, dtype: str, clipped_to: float) -> None:
    low = quantise_mx(_group(amax), dtype)
    assert low.saturated == 1
    assert low.dequantise()[0, 0] == clipped_to
    high = quantise_mx(_group(amax), dtype, rounding="ceil")
    assert high.saturated == 0
    assert abs(high.dequantise()[0, 0] - amax) <= 2.0 ** -(FORMATS[dtype][1] + 1) * abs(amax)


def test_group_of_zeros_gets_scale_one_and_no_warning() -> None:
    x = np.zeros((2, 64))
    x[1, 40] = 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quantised = quantise_mx(x)
        values = quantised.dequantise()
    assert quantised.zero_groups == 3
    assert _bytes(quantised.scale) == [127, 127, 127, 120]
    assert (quantised.values.view(np.uint8)[0] == 0).all()
    assert (values[0] == 0).all()


def test_smallest_and_largest_scales_stay_in_range() -> None:
    """E8M0 ends at 2^-127 (byte 0) and 2^127 (byte 254); 255 is NaN and never written."""
    x = np.zeros((4, 32))
    x[:, 0] = [2.0**-140, 2.0**-119, 2.0**135, 2.0**140]
    quantised = quantise_mx(x, E4M3)
    assert quantised.scale.view(np.uint8)[:, 0, 0].tolist() == [0, 0, 254, 254]
    assert quantised.dequantise()[:, 0].tolist() == [0.0, 2.0**-119, 2.0**135, 448 * 2.0**127]
    assert quantised.saturated == 1


def test_scale_bytes_decode_to_exact_powers_of_two() -> None:
    ones = np.full((6, 32), 0x38, np.uint8).view(ml_dtypes.float8_e4m3fn)
    scale = np.full((6, 1, 2), 127, np.uint8)
    scale[:, 0, 0] = [0, 1, 127, 134, 254, 255]
    values = dequantise_mx(ones, scale)[:, 0]
    assert values[:5].tolist() == [2.0**-127, 2.0**-126, 1.0, 128.0, 2.0**127]
    assert np.isnan(values[5])


def test_fp4_codes_and_nibble_order() -> None:
    assert quantise_mx(np.array([[1.0, 6.0]]), E2M1).values.tolist() == [[0x72]]
    every = np.array([[0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]])
    quantised = quantise_mx(every, E2M1)
    assert quantised.values.tolist() == [[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]]
    assert np.array_equal(quantised.dequantise(), every)
    swapped = ((quantised.values & 0xF) << 4) | (quantised.values >> 4)
    assert dequantise_mx(swapped, quantised.scale, dtype=E2M1)[0, :4].tolist() == [0.5, 0, 1.5, 1]


@pytest.mark.parametrize(
    ("dtype", "pairs"),
    [
        (E2M1, [(5.0, 4.0), (2.5, 2.0), (3.5, 4.0), (0.25, 0.0), (0.75, 1.0), (5.0001, 6.0), (-1.25, -1.0)]),
        (E4M3, [(1.0625, 1.0), (1.1875, 1.25), (1.0626, 1.125), (2.0**-10, 0.0), (1.5 * 2.0**-9, 2.0**-8)]),
        (E5M2, [(1.125, 1.0), (1.375, 1.5), (-1.126, -1.25), (2.0**-17, 0.0)]),
    ],
)
def test_elements_round_to_nearest_even(dtype: str, pairs: list[tuple[float, float]]) -> None:
    largest = FORMATS[dtype][0]
    x = np.zeros((len(pairs), 32))
    x[:, 0], x[:, 1] = largest, [given for given, _ in pairs]  # the largest value makes the scale one
    assert quantise_mx(x, dtype).dequantise()[:, 1].tolist() == [expected for _, expected in pairs]


def test_float64_rounds_once() -> None:
    """Just above half way, by less than float32 can say: up, though its float32 neighbour is a tie."""
    x = np.zeros((2, 32))
    x[:, 0], x[:, 1] = 448, [1.0625 + 2.0**-40, -(1.1875 - 2.0**-40)]
    assert quantise_mx(x, E4M3).dequantise()[:, 1].tolist() == [1.125, -1.125]


@pytest.mark.parametrize("dtype", list(FORMATS))
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_error_bound_of_every_element(dtype: str, rounding: str) -> None:
    """Half a step of the element's binade (or the smallest), times the scale; clipped ones are counted."""
    largest, mantissa, smallest = FORMATS[dtype]
    rng = np.random.default_rng(6)
    x = (rng.normal(0, 1, (50, 160)) * np.exp(rng.uniform(-20, 20, (50, 1)))).astype(np.float32)
    quantised = quantise_mx(x, dtype, rounding=rounding)  # type: ignore[arg-type]
    codes = quantised.scale.view(np.uint8).reshape(50, -1)[:, :5].astype(int)
    scale = np.repeat(2.0 ** (codes - 127), 32, axis=1)
    scaled = np.abs(x) / scale
    inside = scaled <= largest
    assert np.count_nonzero(~inside) == quantised.saturated
    assert (quantised.saturated == 0) == (rounding == "ceil")
    half_step = np.maximum(2.0 ** (np.floor(np.log2(scaled)) - mantissa), smallest) / 2
    error = np.abs(quantised.dequantise() - x) / scale
    assert (error[inside] <= half_step[inside]).all()
    assert (np.abs(quantised.dequantise()) / scale)[~inside].tolist() == [largest] * quantised.saturated


@pytest.mark.parametrize("dtype", list(FORMATS))
def test_quantising_what_was_dequantised_changes_nothing(dtype: str) -> None:
    x = np.random.default_rng(7).normal(0, 1, (3, 96, 8))
    first = quantise_mx(x, dtype, axis=1)
    again = quantise_mx(first.dequantise(), dtype, axis=1)
    assert np.array_equal(again.dequantise(), first.dequantise())
    assert again.saturated == 0


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((5, 128), -1, (5, 2, 2)),  # x1
        ((2, 128, 64), 1, (2, 2, 64, 2)),  # x2 (e, k, n)
        ((2, 64, 128), 2, (2, 64, 2, 2)),  # x2 transposed (e, n, k)
        ((4, 352), 1, (4, 6, 2)),  # 11 groups
        ((4, 176), 1, (4, 3, 2)),  # 6 groups, the last one partial
        ((4, 1440), 1, (4, 23, 2)),  # 45 groups
        ((4, 32), 1, (4, 1, 2)),
        ((0, 64), 1, (0, 1, 2)),
    ],
)
def test_shape_of_scales(shape: tuple[int, ...], axis: int, expected: tuple[int, ...]) -> None:
    quantised = quantise_mx(np.ones(shape), axis=axis)
    assert quantised.scale.shape == expected
    assert quantised.scale.dtype == ml_dtypes.float8_e8m0fnu
    assert np.array_equal(quantised.dequantise(), np.ones(shape))


def test_both_layouts_of_weights_hold_the_same_values() -> None:
    w = np.random.default_rng(8).normal(0, 1, (2, 96, 10)).astype(np.float32)
    plain, transposed = quantise_mx(w, axis=1), quantise_mx(w.swapaxes(1, 2), axis=2)
    assert np.array_equal(plain.dequantise(), transposed.dequantise().swapaxes(1, 2))
    assert np.array_equal(plain.scale.view(np.uint8), transposed.scale.view(np.uint8).swapaxes(1, 2))


def test_scale_slot_of_each_group() -> None:
    """Group j of k is entry [j // 2, j % 2] of the pairs; the last slot of an odd number holds 127."""
    k = 160
    x = np.repeat(2.0 ** np.arange(5), 32)[None]
    assert quantise_mx(x, E4M3).scale.view(np.uint8)[0].tolist() == [[119, 120], [121, 122], [123, 127]]
    w = np.repeat(x.reshape(1, k, 1), 4, axis=2)
    assert quantise_mx(w, E4M3, axis=1).scale.view(np.uint8)[0, :, 2].tolist() == [
        [119, 120],
        [121, 122],
        [123, 127],
    ]


def test_packing_runs_along_n_for_weights_that_are_not_transposed() -> None:
    w = np.full((1, 64, 6), 4.0)  # code 6; 6.0 is code 7
    w[:, :, 1::2] = 6
    assert quantise_mx(w, E2M1, axis=1).values.shape == (1, 64, 3)
    assert np.unique(quantise_mx(w, E2M1, axis=1).values).tolist() == [0x76]
    assert quantise_mx(w.swapaxes(1, 2), E2M1, axis=2).values.shape == (1, 6, 32)
    with pytest.raises(ValueError, match=r"even last axis \(two FP4 in a byte\), got \(1, 64, 7\)"):
        quantise_mx(np.ones((1, 64, 7)), E2M1, axis=1)


def test_fp8_bytes_and_unpacked_fp4_are_understood() -> None:
    quantised = quantise_mx(np.random.default_rng(9).normal(0, 1, (2, 64)), E2M1)
    unpacked = np.stack([quantised.values & 0xF, quantised.values >> 4], -1).reshape(2, 64)
    as_type = unpacked.view(ml_dtypes.float4_e2m1fn)
    assert np.array_equal(dequantise_mx(as_type, quantised.scale), quantised.dequantise())
    fp8 = quantise_mx(np.ones((2, 64)), E5M2)
    assert (dequantise_mx(fp8.values.view(np.uint8), fp8.scale.view(np.uint8), dtype=E5M2) == 1).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_large_weights_are_quantised_in_parts_with_the_same_result(axis: int) -> None:
    w = np.random.default_rng(11).normal(0, 100, (160, 288, 96)).astype(np.float32)
    quantised = quantise_mx(w, E2M1, axis=axis)
    k_last = np.ascontiguousarray(np.moveaxis(w, axis, -1))
    pieces = [quantise_mx(piece, E2M1) for piece in k_last]
    expected = np.stack([piece.dequantise() for piece in pieces])
    assert np.array_equal(np.moveaxis(quantised.dequantise(), axis, -1), expected)
    assert quantised.saturated == sum(piece.saturated for piece in pieces) > 0


def test_large_tensors_are_quantised_in_parts_with_the_same_result() -> None:
    x = np.random.default_rng(10).normal(0, 100, (2100, 1024)).astype(np.float32)
    whole = quantise_mx(x)
    parts = [quantise_mx(x[first : first + 700]) for first in (0, 700, 1400)]
    assert np.array_equal(
        whole.values.view(np.uint8), np.concatenate([p.values.view(np.uint8) for p in parts])
    )
    assert whole.saturated == sum(part.saturated for part in parts) > 0


@pytest.mark.parametrize(
    ("x_slots", "w_slots", "expected"),
    [
        ((127, 127), (127, 127), 64),
        ((127, 128), (127, 127), 96),
        ((127, 127), (129, 127), 160),
        ((128, 127), (127, 129), 192),
        ((128, 127), (129, 127), 288),
    ],
)
def test_slots_of_both_sides_meet_in_the_operator(
    x_slots: tuple[int, int], w_slots: tuple[int, int], expected: int
) -> None:
    """x = w = 1 and k = 64 as floats whose groups carry these scales: the sum says which slot met which."""
    x = np.repeat(2.0 ** (np.array(x_slots) - 127), 32)[None]
    w = np.repeat(np.repeat(2.0 ** (np.array(w_slots) - 127), 32)[None, :, None], 8, axis=2)
    rows, weights = quantise_mx(x), quantise_mx(w, axis=1)
    call = Operands.from_arrays(
        platform="ascend950",
        x1=rows.values,
        x2=weights.values,
        scale=weights.scale,
        pertoken_scale=rows.scale,
        group_list=np.array([1]),
        row_index=np.array([0]),
        logit=np.ones(1, np.float32),
    )
    assert golden(call).out.tolist() == [[expected] * 8]


def test_float_scales_are_taken_only_where_they_are_powers_of_two() -> None:
    rows, weights = quantise_mx(np.ones((1, 64))), quantise_mx(np.ones((1, 64, 8)), axis=1)
    call = {
        "platform": "ascend950",
        "x1": rows.values,
        "x2": weights.values,
        "pertoken_scale": rows.scale,
        "group_list": np.array([1]),
        "row_index": np.array([0]),
        "logit": np.ones(1, np.float32),
        "dtypes": {"scale": "float8_e8m0fnu"},
    }
    powers = dequantise_scale(weights.scale)
    assert golden(Operands.from_arrays(**call, scale=powers)).out[0, 0] == 64
    powers[0, 0, 3, 1] = 0.3
    with pytest.raises(
        ValueError, match=r"scale: E8M0 holds powers of two .* got .*0\.3.* at \[0, 0, 3, 1\]"
    ):
        Operands.from_arrays(**call, scale=powers)


def dequantise_scale(scale: np.ndarray) -> np.ndarray:
    return np.exp2(scale.view(np.uint8).astype(np.float32) - 127)


def test_wrong_arguments_say_what_was_expected() -> None:
    x = np.ones((2, 64))
    with pytest.raises(ValueError, match=r"dtype: expected one of float8_e5m2, .*, got 'int8'"):
        quantise_mx(x, "int8")
    with pytest.raises(ValueError, match="rounding: expected 'floor' or 'ceil', got 'nearest'"):
        quantise_mx(x, rounding="nearest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="axis: 2 is none of the 2 axes"):
        quantise_mx(x, axis=2)
    x[1, 3] = np.inf
    with pytest.raises(ValueError, match=r"values\[1, 3\]: expected finite values, got inf"):
        quantise_mx(x)
    ok = quantise_mx(np.ones((2, 128)))
    with pytest.raises(ValueError, match=r"scale shape: expected \(2, 2, 2\) .* got \(2, 1, 2\)"):
        dequantise_mx(ok.values, ok.scale[:, :1])
    with pytest.raises(ValueError, match="scale: expected float8_e8m0fnu or its bytes as uint8, got float32"):
        dequantise_mx(ok.values, np.ones((2, 2, 2), np.float32))
    with pytest.raises(ValueError, match="uint8 with dtype=…, got uint8"):
        dequantise_mx(ok.values.view(np.uint8), ok.scale)
