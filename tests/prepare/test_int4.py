"""INT4: packing order, the range check, the INT32 carrier, quantisation of weights."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reference import Operands, golden, make_bias, pack_int4, pack_scale_int64, quantise_int4, unpack_int4

EIGHT = [1, -2, 3, -4, 5, -6, 7, -8]


def test_low_nibble_holds_the_even_index() -> None:
    packed = pack_int4(np.array(EIGHT, np.int8))
    assert packed.dtype == np.uint8
    assert packed.tolist() == [0xE1, 0xC3, 0xA5, 0x87]


def test_element_0_is_bits_0_to_3_of_the_int32_word() -> None:
    word = pack_int4(EIGHT, "int32")
    assert word.dtype == np.int32
    assert word.view(np.uint32).tolist() == [0x87A5C3E1]  # 0x1e3c5a78 would be the high nibble first


def test_carrier_of_weights_is_e_k_n_over_8() -> None:
    assert pack_int4(np.zeros((2, 256, 128), np.int8), "int32").shape == (2, 256, 16)


@pytest.mark.parametrize("carrier", ["uint8", "int32"])
@given(values=hnp.arrays(np.int8, (3, 16), elements=st.integers(-8, 7)))
def test_pack_and_unpack_round_trip(carrier: str, values: np.ndarray) -> None:
    assert np.array_equal(unpack_int4(pack_int4(values, carrier)), values)  # type: ignore[arg-type]


def test_every_value_of_every_nibble_round_trips() -> None:
    words = np.arange(-(2**31), 2**31, 65537 * 3, dtype=np.int64).astype(np.int32)
    assert np.array_equal(pack_int4(unpack_int4(words), "int32"), words)


def test_non_contiguous_and_ml_dtypes_values_pack_alike() -> None:
    values = np.arange(-8, 8, dtype=np.int8).reshape(2, 8)
    transposed = np.ascontiguousarray(values.T).T
    assert np.array_equal(pack_int4(transposed), pack_int4(values))
    assert np.array_equal(pack_int4(values.astype(ml_dtypes.int4)), pack_int4(values))


@pytest.mark.parametrize(("values", "first", "count"), [([8, 9, -9], 8, 3), ([0, 7, -9, 12], -9, 2)])
def test_values_outside_int4_are_refused_with_position_and_value(
    values: list[int], first: int, count: int
) -> None:
    position = values.index(first)
    with pytest.raises(
        ValueError, match=rf"values\[{position}\]: expected INT4 in \[-8, 7\], got {first} "
    ) as error:
        pack_int4(np.array(values))
    assert f"({count} of {len(values)} values are outside)" in str(error.value)


def test_position_of_a_refused_value_has_every_axis() -> None:
    values = np.zeros((2, 3, 8), np.int32)
    values[1, 2, 5] = 8
    with pytest.raises(ValueError, match=r"values\[1, 2, 5\]: expected INT4 in \[-8, 7\], got 8"):
        pack_int4(values)


def test_floats_are_not_truncated() -> None:
    with pytest.raises(
        ValueError, match=r"values: expected integers in \[-8, 7\], got float64; round them first"
    ):
        pack_int4(np.array([1.5, 2.0]))


def test_a_last_axis_that_fills_no_word_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a last axis divisible by 8 .* got \(2, 12\)"):
        pack_int4(np.zeros((2, 12), np.int8), "int32")
    with pytest.raises(ValueError, match=r"divisible by 2"):
        pack_int4(np.zeros(3, np.int8))


def test_packed_weights_give_the_hand_computed_columns() -> None:
    """Weights that differ along n: 1,3,… and -2,5,… give -64, 512 and -224, 912; swapped nibbles do not."""
    values = np.repeat(np.array([[1, 3] * 64, [-2, 5] * 64], np.int8)[:, None], 256, axis=1)
    scale = pack_scale_int64(np.repeat(np.array([[[0.5]], [[0.25]]], np.float32), 128, axis=2))
    words = pack_int4(values, "int32")
    out = golden(_call(words, scale, make_bias(values, scale))).out
    assert out[0].tolist() == [-64, 512] * 64
    assert out[1].tolist() == [-224, 912] * 64
    swapped = ((words & 0x0F0F0F0F) << 4) | ((words >> 4) & 0x0F0F0F0F)
    assert golden(_call(swapped, scale, make_bias(values, scale))).out[:, :2].tolist() == [
        [-1408, 1856],
        [-2288, 2976],
    ]
    assert golden(_call(swapped, scale, make_bias(swapped, scale))).out[:, :2].tolist() == [
        [512, -64],
        [912, -224],
    ]


def _call(words: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> Operands:
    return Operands.from_arrays(
        platform="atlas_a2",
        batch=2,
        x1=np.repeat(np.arange(1, 5, dtype=np.int8)[:, None], 256, axis=1),
        x2=words,
        scale=scale,
        bias=bias,
        pertoken_scale=np.ones(4, np.float32),
        group_list=np.array([2, 2]),
        row_index=np.array([0, 1, 1, 0]),
        logit=np.array([0.5, 0.25, 0.75, 0.25], np.float32),
    )


def test_symmetric_quantisation_by_hand() -> None:
    weights = np.array([7.0, -3.5, 0.5, 1.5, 0.0, -7.0]).reshape(1, 6, 1)
    quantised = quantise_int4(weights)
    assert quantised.scale.tolist() == [[[1.0]]]
    assert quantised.values.reshape(-1).tolist() == [7, -4, 0, 2, 0, -7]  # half way goes to the even number


def test_asymmetric_quantisation_by_hand() -> None:
    weights = np.array([0.0, 1.0, 7.0, 15.0]).reshape(1, 4, 1)
    quantised = quantise_int4(weights, symmetric=False)
    assert quantised.antiquant_offset is not None
    assert (quantised.scale.item(), quantised.antiquant_offset.item()) == (1.0, 8.0)
    assert quantised.values.reshape(-1).tolist() == [-8, -7, -1, 7]
    assert np.array_equal(quantised.dequantise(), weights)


@pytest.mark.parametrize("symmetric", [True, False])
def test_error_of_each_weight_is_at_most_half_a_step(symmetric: bool) -> None:
    rng = np.random.default_rng(8)
    weights = rng.normal(0.01, 0.05, (3, 96, 40)).astype(np.float32)
    weights[1, :, 3] = 0
    weights[2, :, 4] = 0.3
    quantised = quantise_int4(weights, symmetric=symmetric)
    error = np.abs(quantised.dequantise() - weights)
    assert (error <= quantised.scale / 2 * (1 + 1e-6)).all()
    assert quantised.scale[1, 0, 3] == 1
    assert (quantised.dequantise()[1, :, 3] == 0).all()
    steps = np.abs(weights).max(axis=1) / 7 if symmetric else np.ptp(weights, axis=1) / 15
    wide = quantised.scale[:, 0] <= steps * (1 + 2.0**-10 + 1e-6)
    assert wide[0].all()
    assert (quantised.scale.view(np.uint32) & 0x1FFF == 0).all()  # exact in the 19 bits of the device


def test_quantising_what_was_dequantised_changes_nothing() -> None:
    first = quantise_int4(np.random.default_rng(9).normal(0, 1, (2, 64, 16)).astype(np.float32))
    again = quantise_int4(first.dequantise())
    assert np.array_equal(again.values, first.values)
    assert np.array_equal(again.scale, first.scale)


def test_weights_with_nan_are_refused_with_the_position() -> None:
    weights = np.zeros((1, 4, 8), np.float32)
    weights[0, 2, 5] = np.nan
    with pytest.raises(ValueError, match=r"weights\[0, 2, 5\]: expected finite values, got nan"):
        quantise_int4(weights)
