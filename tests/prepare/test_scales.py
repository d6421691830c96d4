"""The INT64 scale: float32 bits in the low word, the 19 bits of the device, per-group scales."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from reference import pack_scale_int64, scale_loss, unpack_scale_int64


def test_bits_of_float32_are_the_low_word() -> None:
    packed = pack_scale_int64(np.array([0.1, 0.25, 1.0], np.float32))
    assert packed.dtype == np.int64
    assert packed.tolist() == [0x3DCCCCCD, 0x3E800000, 0x3F800000]


def test_python_numbers_and_float64_round_to_float32() -> None:
    assert pack_scale_int64([0.1, 0.25, 1.0]).tolist() == [0x3DCCCCCD, 0x3E800000, 0x3F800000]


def test_half_and_bf16_widen_exactly() -> None:
    assert pack_scale_int64(np.array([0.1], np.float16)).tolist() == [0x3DCCC000]  # what 0.1 is in half
    assert pack_scale_int64(np.array([0.1], ml_dtypes.bfloat16)).tolist() == [0x3DCD0000]


def test_round_trip_is_exact() -> None:
    scale = np.exp(np.random.default_rng(1).uniform(-9, -4, (4, 1, 64))).astype(np.float32)
    assert np.array_equal(unpack_scale_int64(pack_scale_int64(scale)), scale)


@pytest.mark.parametrize(
    ("rounding", "bits"),
    [("keep", 0x3DCCCCCD), ("truncate", 0x3DCCC000), ("nearest", 0x3DCCC000), ("up", 0x3DCCE000)],
)
def test_rounding_to_the_19_bits_of_the_device(rounding: str, bits: int) -> None:
    assert pack_scale_int64(np.array([0.1], np.float32), rounding).tolist() == [bits]  # type: ignore[arg-type]


def test_nearest_rounds_half_way_to_even_and_carries_into_the_exponent() -> None:
    floats = np.array([0x3F801000, 0x3F803000, 0x3FFFF000, 0x3F801001], np.uint32).view(np.float32)
    assert pack_scale_int64(floats, "nearest").tolist() == [0x3F800000, 0x3F804000, 0x40000000, 0x3F802000]


@pytest.mark.parametrize(
    ("rounding", "bound"), [("nearest", 2.0**-11), ("truncate", 2.0**-10), ("up", 2.0**-10)]
)
def test_error_bound_of_rounding(rounding: str, bound: float) -> None:
    scale = np.exp(np.random.default_rng(2).uniform(-9, 3, 4096)).astype(np.float32)
    packed = pack_scale_int64(scale, rounding)  # type: ignore[arg-type]
    relative = np.abs(unpack_scale_int64(packed).astype(np.float64) / scale - 1)
    assert bound / 2 < relative.max() <= bound
    assert scale_loss(packed).count == 0


def test_loss_names_the_worst_scale() -> None:
    loss = scale_loss(pack_scale_int64(np.array([0.5, 0.1, 0.25], np.float32)))
    assert (loss.count, loss.size, loss.position) == (1, 3, (1,))
    assert loss.max_relative == pytest.approx(2.44e-4, rel=1e-2)  # 0x3dcccccd against 0x3dccc000
    assert "1 of 3 scales lose up to 0.000244" in str(loss)
    assert 'rounding="nearest"' in str(loss)


def test_scales_that_fit_report_no_loss() -> None:
    assert (
        str(scale_loss(pack_scale_int64([0.5, 0.25])))
        == "all 2 scales are exact in the 19 bits that the device reads"
    )


def test_bit_46_of_the_vendors_converters_says_nothing_about_the_value() -> None:
    packed = pack_scale_int64([0.5, 0.25]) | (1 << 46)
    assert unpack_scale_int64(packed).tolist() == [0.5, 0.25]


@pytest.mark.parametrize("groups", [2, 8])
def test_per_group_scales_are_refused_with_the_reason(groups: int) -> None:
    with pytest.raises(ValueError, match=rf"scale axis 1 is {groups}, .* takes 1 \(per-channel\)") as error:
        pack_scale_int64(np.ones((2, groups, 128), np.float32))
    assert "Group-quantised checkpoints need another operator or re-quantisation" in str(error.value)
    assert pack_scale_int64(np.ones((2, 1, 128), np.float32)).shape == (2, 1, 128)


def test_packed_scales_are_not_packed_again() -> None:
    with pytest.raises(ValueError, match="scale: expected floats, got int64; these look quantised already"):
        pack_scale_int64(pack_scale_int64([0.5]))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_scales_that_are_no_finite_float32_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"scale\[1\]: expected finite values, got"):
        pack_scale_int64(np.array([1.0, value]))


def test_unpacking_takes_64_bit_integers_only() -> None:
    with pytest.raises(ValueError, match="packed: expected int64 or uint64, got float32"):
        unpack_scale_int64(np.ones(2, np.float32))
