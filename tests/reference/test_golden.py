"""The golden against numbers computed by hand, and against a plain loop over the contract's formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from reference import Operands, golden, make_case
from reference.cases import CASES
from reference.golden_operator import occurrences

SMALL = [name for name, case in CASES.items() if case.k * case.n * case.e < 2_000_000]


def changed(operands: Operands, **call: Any) -> Operands:
    """The same call with other arguments or attributes."""
    names = {key: value for key, value in call.items() if key in operands.problem.arguments}
    attributes = replace(operands.attributes, **{k: v for k, v in call.items() if k not in names})
    arrays = {**operands.arrays, **names}
    return Operands.from_arrays(
        platform=operands.problem.platform,
        batch=operands.batch,
        dtypes={
            n: s.dtype for n, s in operands.problem.arguments.items() if s and s.dtype.startswith("float4")
        },
        **{name: array for name, array in arrays.items() if array is not None},
        **{key: getattr(attributes, key) for key in attributes.__dataclass_fields__},
    )


W0_ROWS = [
    ({}, (-64, -224)),
    ({"bias": np.zeros((2, 128), np.float32)}, (-320, 288)),
    ({"bias": np.repeat(np.float32([[128], [-128]]), 128, 1)}, (-288, 224)),
    ({"bias": np.repeat(np.float32([[8 * 256], [-16 * 256]]), 128, 1)}, (-320, -2272)),
    ({"group_list_type": 0}, (64, 64)),
    ({"logit": np.float32([0.25, 0.75, 0.25, 0.5])}, (-224, 96)),
    ({"row_index": np.array([0, 0, 0, 0])}, (-288, 0)),
    ({"group_list": np.array([4, 0])}, (192, 352)),
    ({"group_list": np.array([0, 4])}, (-192, -352)),
    ({"group_list": np.array([1, 1])}, (64, -64)),
]


@pytest.mark.parametrize(("change", "expected"), W0_ROWS)
def test_w0_table(change: dict[str, Any], expected: tuple[float, float]) -> None:
    out = golden(changed(make_case("w0"), **change)).out
    np.testing.assert_array_equal(out, np.repeat(np.float64([expected]).T, 128, axis=1))


@pytest.mark.parametrize(("offset", "expected"), [(1, (-64, -219)), (0, (-59, -224))])
def test_w0_shared_input(offset: int, expected: tuple[float, float]) -> None:
    shared = np.full((1, 128), 10, ml_dtypes.bfloat16)
    call = changed(make_case("w0"), shared_input=shared, shared_input_weight=0.5, shared_input_offset=offset)
    assert golden(call).out[:, 5].tolist() == list(expected)


def test_w1_columns_differ() -> None:
    assert golden(make_case("w1")).out[:, :4].tolist() == [[-64, 512, -64, 512], [-224, 912, -224, 912]]


def test_w4a8_largest_sum_by_hand() -> None:
    """k = 256, x = 127, w = 7, scale 0.5: 113792; without the compensation 7168 less."""
    words = np.full((1, 256, 16), 0x77777777, np.int32)
    call = {
        "platform": "atlas_a2",
        "batch": 1,
        "x1": np.full((1, 256), 127, np.int8),
        "x2": words,
        "scale": np.full((1, 1, 128), 0.5, np.float32).view(np.uint32).astype(np.int64),
        "bias": np.full((1, 128), 8 * 256 * 7 * 0.5, np.float32),
        "pertoken_scale": np.ones(1, np.float32),
        "group_list": np.array([1]),
        "row_index": np.array([0]),
        "logit": np.ones(1, np.float32),
    }
    assert (golden(Operands.from_arrays(**call)).out == 113792).all()
    call["bias"] = np.zeros((1, 128), np.float32)
    assert (golden(Operands.from_arrays(**call)).out == 106624).all()


def test_int64_scale_reads_19_bits_and_ignores_the_high_word() -> None:
    base = make_case("w0")
    marked = base.arrays["scale"] | (1 << 46) | 0x1FFF
    np.testing.assert_array_equal(golden(changed(base, scale=marked)).out, golden(base).out)


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
def test_m0_scale_slots(x_slots: tuple[int, int], w_slots: tuple[int, int], expected: float) -> None:
    pertoken = np.array([[x_slots]], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    scale = np.broadcast_to(np.array(w_slots, np.uint8), (1, 1, 64, 2)).copy().view(ml_dtypes.float8_e8m0fnu)
    assert (golden(changed(make_case("m0"), pertoken_scale=pertoken, scale=scale)).out == expected).all()


def plain_loop(operands: Operands) -> np.ndarray[Any, Any]:
    """The formula, written out row by row from the bit definitions."""
    a, attributes = operands.arrays, operands.attributes
    out = np.zeros((operands.batch, operands.problem.n))
    if "shared_input" in a:
        shared = a["shared_input"].astype(np.float64) * attributes.shared_input_weight
        out[attributes.shared_input_offset :][: len(shared)] = shared
    counts = np.array(a["group_list"])
    if attributes.group_list_type == 0:
        counts = np.diff(counts, prepend=0)
    for row, expert in enumerate(np.repeat(np.arange(len(counts)), counts)):
        out[a["row_index"][row]] += a["logit"][row] * one_row(operands, row, int(expert))
    return out


def one_row(operands: Operands, row: int, g: int) -> np.ndarray[Any, Any]:
    a, k, n = operands.arrays, operands.problem.k, operands.problem.n
    if operands.problem.platform != "ascend950":
        x = a["x1"][row].astype(np.float64)
        w = ((a["x2"][g].astype(np.int64)[:, :, None] >> (4 * np.arange(8))) & 15).reshape(k, n)
        w = np.where(w > 7, w - 16, w)
        s = (a["scale"][g, 0] & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64)
        y = s * (x @ w - 8 * w.sum(axis=0)) + a["bias"][g]
        if "offset" in a:
            y = y + a["offset"][g, 0] * x.sum()
        return y * a["pertoken_scale"][row]
    x_kind, w_kind = operands.problem.spec("x1").dtype, operands.problem.spec("x2").dtype
    x = unpack(a["x1"][row], x_kind)
    w = unpack(a["x2"][g], w_kind)
    scale = a["scale"][g].astype(np.float64)
    if operands.attributes.transpose_x2:
        w, scale = w.T, scale.swapaxes(0, 1)
    index = np.arange(k)
    xs = a["pertoken_scale"][row].astype(np.float64)[index // 64, index // 32 % 2]
    ws = scale[index // 64, :, index // 32 % 2]
    y = (x * xs) @ (w * ws)
    return y + a["bias"][g].astype(np.float64) if "bias" in a else y


def unpack(codes: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    if kind != "float4_e2m1fn":
        return codes.astype(np.float64)
    nibbles = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)
    return nibbles.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)


@pytest.mark.parametrize("name", SMALL)
def test_agrees_with_the_plain_formula(name: str) -> None:
    operands = make_case(name, seed=3)
    np.testing.assert_allclose(golden(operands).out, plain_loop(operands), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("name", SMALL)
def test_float32_stays_within_the_comparators_bound(name: str) -> None:
    operands = make_case(name, seed=4)
    exact = golden(operands, magnitudes=True)
    assert exact.magnitude is not None
    assert exact.terms is not None
    error = np.abs(golden(operands, "float32").out - exact.out)
    assert (error <= 2 * np.sqrt(exact.terms)[:, None] * 2.0**-24 * exact.magnitude).all()


def test_strided_transposed_weight_and_scale_give_the_same_result() -> None:
    for name in ("c12", "c16"):
        operands = make_case(name)
        strided = changed(
            operands,
            x2=operands.arrays["x2"].transpose(0, 2, 1),
            scale=operands.arrays["scale"].transpose(0, 2, 1, 3),
            transpose_x2=False,
        )
        assert strided.problem.spec("x2").is_transposed
        np.testing.assert_array_equal(golden(strided).out, golden(operands).out)


def test_cumulative_list_gives_the_same_result() -> None:
    operands = make_case("c10")
    other = changed(operands, group_list=np.cumsum(operands.arrays["group_list"]), group_list_type=0)
    np.testing.assert_array_equal(golden(other).out, golden(operands).out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_index": np.array([0, -1, 1, 0])}, "row_index: row 1 points at -1; expected 0 ≤ value < 2"),
        ({"row_index": np.array([0, 1, 2, 0])}, "row_index: row 2 points at 2; expected 0 ≤ value < 2"),
        ({"group_list": np.array([3, 2])}, "group_list: 5 rows in all, x1 has only 4"),
        ({"group_list": np.array([3, -1])}, "group_list: expert 1 gets -1 rows"),
        ({"group_list": np.array([3, 2]), "group_list_type": 0}, "group_list: expert 1 gets -1 rows"),
    ],
)
def test_nothing_wraps(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        golden(changed(make_case("w0"), **change))


def test_tail_rows_are_never_read() -> None:
    out = golden(
        make_case("c18_mxfp8")
    ).out  # its three tail rows hold NaN weights and impossible row indices
    assert np.isfinite(out).all()


def test_padding_slots_are_never_read() -> None:
    assert np.isfinite(golden(make_case("c9")).out).all()  # NaN bytes in every padding slot


def test_rows_that_nothing_hits_hold_the_shared_part_or_zero() -> None:
    out = golden(changed(make_case("c18_mxfp8"), group_list=np.array([0, 0]))).out
    shared = make_case("c18_mxfp8").arrays["shared_input"].astype(np.float64) * 0.5
    np.testing.assert_array_equal(out, np.concatenate([np.zeros((1, 128)), shared, np.zeros((1, 128))]))
    assert not np.signbit(out[0]).any()


def test_occurrences_split_duplicates_in_row_order() -> None:
    parts = occurrences(np.array([5, 2, 5, 5, 2, 7]))
    assert [part.tolist() for part in parts] == [[0, 1, 5], [2, 4], [3]]


def test_fp16_partials_overflow_where_the_device_does() -> None:
    operands = make_case("w0")
    scale = np.full((2, 1, 128), 4096, np.float32).view(np.uint32).astype(np.int64)
    call = changed(operands, scale=scale, x1=np.full((4, 256), 127, np.int8))
    assert np.isfinite(golden(call).out).all()
    assert not np.isfinite(golden(call, model="fp16_partials").out).any()


def test_fp16_partials_are_exact_where_halves_are() -> None:
    np.testing.assert_array_equal(
        golden(make_case("w1"), model="fp16_partials").out, golden(make_case("w1")).out
    )


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="precision: expected 'float64' or 'float32', got 'half'"):
        golden(make_case("m0"), "half")  # type: ignore[arg-type]
