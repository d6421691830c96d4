"""Number formats: every code of every format, by hand where the definition is easy to write down."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from reference.formats import FORMATS, decode_table, number_format, numpy_dtype

WITH_TABLE = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn"]


@pytest.mark.parametrize("name", WITH_TABLE)
def test_every_code_decodes_as_in_ml_dtypes(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(1 << number_format(name).bits, dtype=np.uint8)
    expected = codes.view(dtype).astype(np.float64)
    np.testing.assert_array_equal(decode_table(name), expected)
    assert (np.signbit(decode_table(name)) == np.signbit(expected))[~np.isnan(expected)].all()


def test_e2m1_by_hand() -> None:
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert decode_table("float4_e2m1fn").tolist() == positive + [-value for value in positive]
    assert np.signbit(decode_table("float4_e2m1fn")[8])


@pytest.mark.parametrize(
    ("code", "value"),
    [(0, 2.0**-127), (1, 2.0**-126), (127, 1.0), (134, 128.0), (254, 2.0**127)],
)
def test_e8m0_by_hand(code: int, value: float) -> None:
    assert decode_table("float8_e8m0fnu")[code] == value


def test_e8m0_255_is_nan_and_nothing_else() -> None:
    assert np.flatnonzero(np.isnan(decode_table("float8_e8m0fnu"))).tolist() == [255]


def test_fp8_edges_by_hand() -> None:
    e4m3, e5m2 = decode_table("float8_e4m3fn"), decode_table("float8_e5m2")
    assert e4m3[0x7E] == 448.0
    assert np.isnan(e4m3[[0x7F, 0xFF]]).all()
    assert e4m3[0x01] == 2.0**-9
    assert e5m2[0x7B] == 57344.0
    assert e5m2[0x7C] == np.inf
    assert e5m2[0xFC] == -np.inf
    assert np.isnan(e5m2[[0x7D, 0x7E, 0x7F]]).all()


def test_packed_formats_take_half_a_byte() -> None:
    assert number_format("float4_e2m1fn").nbytes(7) == 4
    assert number_format("int4").nbytes(8) == 4
    assert number_format("bfloat16").nbytes(3) == 6


def test_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"dtype 'float6' is unknown; known: float32, float16"):
        number_format("float6")


def test_formats_without_a_layout_have_no_table() -> None:
    with pytest.raises(ValueError, match="hifloat8"):
        decode_table("hifloat8")


def test_carriers_are_numpy_types() -> None:
    assert {name: numpy_dtype(name).itemsize for name in FORMATS if FORMATS[name].bits >= 8} == {
        name: row.bits // 8 for name, row in FORMATS.items() if row.bits >= 8
    }
