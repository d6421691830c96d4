"""INT8 activations with one scale per row."""

from __future__ import annotations

import numpy as np
import pytest

from reference import dequantise_int8, quantise_int8


def test_rows_by_hand() -> None:
    x = np.array([[127.0, -63.5, 1.5], [-2.54, 0.0, 1.27], [0.0, 0.0, 0.0]])
    quantised, scale = quantise_int8(x)
    assert quantised.dtype == np.int8
    assert scale.dtype == np.float32
    assert quantised.tolist() == [[127, -64, 2], [-127, 0, 64], [0, 0, 0]]
    assert scale.tolist() == [1.0, float(np.float32(0.02)), 1.0]


def test_error_of_each_value_is_at_most_half_a_step() -> None:
    x = np.random.default_rng(4).normal(0, 3, (64, 200)).astype(np.float32)
    quantised, scale = quantise_int8(x)
    error = np.abs(dequantise_int8(quantised, scale) - x)
    assert (error <= scale[:, None].astype(np.float64) / 2 * (1 + 1e-6)).all()
    assert np.array_equal(np.abs(quantised).max(axis=1), np.full(64, 127))


def test_quantising_what_was_dequantised_changes_nothing() -> None:
    first, scale = quantise_int8(np.random.default_rng(5).normal(0, 1, (16, 64)))
    again, scale_again = quantise_int8(dequantise_int8(first, scale))
    assert np.array_equal(again, first)
    assert np.allclose(scale_again, scale, rtol=1e-6)


def test_smallest_floats_do_not_divide_by_zero() -> None:
    x = np.array([[1e-45, -1e-45], [3e38, -1e38]], np.float32)
    quantised, scale = quantise_int8(x)
    assert quantised.tolist() == [[0, 0], [127, -42]]
    assert (scale > 0).all()


def test_large_arrays_are_quantised_in_parts_with_the_same_result() -> None:
    x = np.random.default_rng(6).normal(0, 1, (2100, 1024)).astype(np.float32)
    quantised, scale = quantise_int8(x)
    assert np.array_equal(quantised[2000:], quantise_int8(x[2000:])[0])
    assert np.array_equal(scale[1000:1100], quantise_int8(x[1000:1100])[1])


def test_rows_beyond_float32_are_refused() -> None:
    with pytest.raises(ValueError, match="x: row 1 is beyond the range of a float32 scale"):
        quantise_int8(np.array([[1.0, 2.0], [1e300, 0.0]]))


def test_no_rows_give_no_scales() -> None:
    quantised, scale = quantise_int8(np.zeros((0, 64), np.float32))
    assert (quantised.shape, scale.shape) == ((0, 64), (0,))


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_non_finite_values_are_refused_with_the_position(value: float) -> None:
    x = np.zeros((2, 3), np.float32)
    x[1, 2] = value
    with pytest.raises(ValueError, match=rf"x\[1, 2\]: expected finite values, got {value}"):
        quantise_int8(x)


def test_integers_are_not_quantised_again() -> None:
    with pytest.raises(ValueError, match="x: expected floats, got int8; these look quantised already"):
        quantise_int8(np.zeros((2, 3), np.int8))


def test_scales_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"pertoken_scale: expected 4 values, one per row, got \(3,\)"):
        dequantise_int8(np.zeros((4, 8), np.int8), np.ones(3, np.float32))
