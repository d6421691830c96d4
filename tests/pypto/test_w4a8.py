"""The two W4A8 kernels on PyPTO's interpreter, for A2 and A3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pypto_impl import run
from reference.operands import Operands

pytestmark = pytest.mark.usefixtures("interpreter")
Maker = Callable[..., Operands]
UNPACK = pytest.mark.parametrize("unpack", ["host", "kernel"])


def hand_made(first: list[int], second: list[int], **changes: Any) -> Operands:
    """m 4, k 256, n 128, two experts whose columns alternate between two weights; scales 0.5 and 0.25.

    Row i of x1 is filled with i + 1; the bias is 8 times the scaled column sums.
    """
    columns = np.stack([np.tile(pair, 64) for pair in (first, second)])
    nibbles = (columns & 15).reshape(2, 16, 8) << np.arange(0, 32, 4)
    words = nibbles.sum(-1).astype(np.uint32).view(np.int32)
    scale = np.repeat(np.array([[0.5], [0.25]], np.float32), 128, axis=1)
    call: dict[str, Any] = {
        "x1": np.repeat(np.arange(1, 5, dtype=np.int8)[:, None], 256, axis=1),
        "x2": np.repeat(words[:, None], 256, axis=1),
        "scale": scale.view(np.uint32).astype(np.int64)[:, None],
        "bias": (8 * 256 * columns * scale).astype(np.float32),
        "pertoken_scale": np.ones(4, np.float32),
        "group_list": np.array([2, 2]),
        "row_index": np.array([0, 1, 1, 0]),
        "logit": np.array([0.5, 0.25, 0.75, 0.25], np.float32),
        "batch": 2,
    }
    return Operands.from_arrays(platform="atlas_a2", **{**call, **changes})


def columns_of(out: np.ndarray) -> list[list[float]]:
    """The two values that alternate along every row."""
    np.testing.assert_array_equal(out, np.tile(out[:, :2], 64))
    return out[:, :2].tolist()


@UNPACK
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [-64, -224]),
        ({"group_list": np.array([2, 4]), "group_list_type": 0}, [-64, -224]),
        ({"bias": np.zeros((2, 128), np.float32)}, [-320, 288]),
        ({"logit": np.array([0.25, 0.75, 0.25, 0.5], np.float32)}, [-224, 96]),
        ({"row_index": np.zeros(4, np.int64)}, [-288, 0]),
        ({"group_list": np.array([4, 0])}, [192, 352]),
        ({"group_list": np.array([0, 4])}, [-192, -352]),
        ({"group_list": np.array([1, 1])}, [64, -64]),
    ],
    ids=[
        "plain",
        "totals",
        "no bias",
        "logit reversed",
        "one token",
        "first only",
        "second only",
        "tail rows",
    ],
)
def test_known_results(unpack: Any, changes: dict[str, Any], expected: list[float]) -> None:
    result = run(hand_made([1, 1], [-2, -2], **changes), on="interpreter", unpack=unpack)
    assert columns_of(result.out) == [[value, value] for value in expected]


@UNPACK
def test_known_results_with_a_shared_input(unpack: Any) -> None:
    import ml_dtypes

    shared = np.full((1, 128), 10, ml_dtypes.bfloat16)
    for offset, expected in ((1, [-64, -219]), (0, [-59, -224])):
        call = hand_made(
            [1, 1], [-2, -2], shared_input=shared, shared_input_weight=0.5, shared_input_offset=offset
        )
        result = run(call, on="interpreter", unpack=unpack)
        assert columns_of(result.out) == [[value, value] for value in expected]


@UNPACK
def test_the_order_of_nibbles(unpack: Any) -> None:
    result = run(hand_made([1, 3], [-2, 5]), on="interpreter", unpack=unpack)
    assert columns_of(result.out) == [[-64, 512], [-224, 912]]


@UNPACK
@pytest.mark.parametrize("offset", [False, True], ids=["no offset", "offset"])
@pytest.mark.parametrize(("k", "n"), [(192, 72), (256, 128), (320, 136), (2048, 256)])
def test_both_kernels_compute_the_formula(
    make_w4a8: Maker, expect: Callable[..., Any], unpack: Any, offset: bool, k: int, n: int
) -> None:
    operands = make_w4a8(
        [5, 0, 17, 3], k=k, n=n, offset=offset, batch=6, m=30, shared=2, shared_input_offset=4
    )
    expect(operands).assert_close(run(operands, on="interpreter", unpack=unpack).out)


@UNPACK
def test_integers_are_exact(make_w4a8: Maker, expect: Callable[..., Any], unpack: Any) -> None:
    operands = make_w4a8([9, 0, 17, 6], offset=True, integers=True, shared=2)
    expect(operands).assert_equal(run(operands, on="interpreter", unpack=unpack).out)


@UNPACK
def test_extreme_values_are_exact(unpack: Any) -> None:
    """K = 256, x = 127, w = 7, scale 0.5 with its bias: 256 * 127 * 7 * 0.5."""
    call = hand_made([7, 7], [-8, -8], logit=np.ones(4, np.float32), row_index=np.arange(4), batch=4)
    x1 = np.repeat(np.array([127, -128, 127, -128], np.int8)[:, None], 256, axis=1)
    operands = Operands(call.problem, {**call.arrays, "x1": x1})
    out = run(operands, on="interpreter", unpack=unpack).out
    assert out[:, 0].tolist() == [113792, -114688, -65024, 65536]


@UNPACK
def test_a_large_k_stays_exact(make_w4a8: Maker, expect: Callable[..., Any], unpack: Any) -> None:
    """The integer sum exceeds 2^24 before the compensation; it is formed in INT32 and rounded once."""
    operands = make_w4a8([1], k=18432, n=72, batch=1)
    x1 = np.full((1, 18432), -128, np.int8)
    x2 = np.full((1, 18432, 9), -2004318072, np.int32)  # every nibble is 8, that is -8
    bias = np.zeros((1, 72), np.float32)
    scale = np.full((1, 1, 72), 0x3F800000, np.int64)
    arrays = {**operands.arrays, "x1": x1, "x2": x2, "bias": bias, "scale": scale}
    arrays |= {"logit": np.ones(1, np.float32), "pertoken_scale": np.ones(1, np.float32)}
    out = run(Operands(operands.problem, arrays), on="interpreter", unpack=unpack).out
    assert set(out.reshape(-1)) == {18432 * 136 * 8}


def test_only_the_upper_19_bits_of_the_scale_count() -> None:
    """0.1 is 0x3dcccccd; the output stage reads 0x3dccc000. Bit 46 is a legal flag."""
    plain = hand_made([1, 1], [-2, -2])
    words = np.full((2, 1, 128), 0x3DCCCCCD | 1 << 46, np.int64)
    zero = np.zeros((2, 128), np.float32)
    out = run(Operands(plain.problem, {**plain.arrays, "scale": words, "bias": zero}), on="interpreter").out
    scale = np.array([0x3DCCC000], np.uint32).view(np.float32)[0]
    first = np.float32(np.float32(256 * (1 - 8)) * scale) * np.float32(0.5)
    last = np.float32(np.float32(-2 * 256 * (4 - 8)) * scale) * np.float32(0.25)
    assert out[0, 0] == first + last


def test_atlas_a3_is_computed_as_a2(make_w4a8: Maker) -> None:
    a2, a3 = make_w4a8([3, 2]), make_w4a8([3, 2], platform="atlas_a3")
    result = run(a3, on="interpreter")
    assert result.device == "interpreter (PyPTO 0.2.0, DAV_2201)"
    np.testing.assert_array_equal(run(a2, on="interpreter").out, result.out)


def test_the_tuning_hint_chooses_tiles_and_changes_no_number(make_w4a8: Maker) -> None:
    operands = make_w4a8([20, 12], integers=True)
    attributes = replace(operands.problem.attributes, tuning_config=(32,))
    hinted = Operands(replace(operands.problem, attributes=attributes), operands.arrays)
    wide, narrow = run(hinted, on="interpreter"), run(operands, on="interpreter")
    assert (wide.tiles.rows, narrow.tiles.rows) == (32, 16)  # type: ignore[union-attr]
    np.testing.assert_array_equal(wide.out, narrow.out)
