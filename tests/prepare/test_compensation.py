"""The compensation bias and the offset of W4A8, whole and per rank."""

from __future__ import annotations

import numpy as np
import pytest

from reference import (
    Operands,
    golden,
    k_slices,
    make_bias,
    make_case,
    make_offset,
    pack_int4,
    pack_scale_int64,
    unpack_int4,
    unpack_scale_int64,
)


def _weights(seed: int = 3, shape: tuple[int, int, int] = (3, 256, 72)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = rng.integers(-8, 8, shape).astype(np.int8)
    scale = np.exp(rng.uniform(-8, -4, (shape[0], 1, shape[2]))).astype(np.float32)
    return values, pack_scale_int64(scale, "nearest")


def test_bias_of_the_hand_made_call_is_plus_and_minus_1024() -> None:
    values = np.repeat(np.array([1, -2], np.int8), 256 * 128).reshape(2, 256, 128)
    scale = np.repeat(np.array([0.5, 0.25], np.float32), 128).reshape(2, 1, 128)
    assert make_bias(values, scale).tolist() == [[1024.0] * 128, [-1024.0] * 128]


def test_bias_of_extreme_weights() -> None:
    """k 256, w 7, scale 0.5: 8 · 256 · 7 · 0.5 = 7168, which is what out lacks with a bias of zero."""
    assert make_bias(np.full((1, 256, 8), 7, np.int8), np.full((1, 8), 0.5)).tolist() == [[7168.0] * 8]
    assert make_bias(np.full((1, 4096, 8), -8, np.int8), np.ones((1, 8))).tolist() == [[-262144.0] * 8]


@pytest.mark.parametrize("k", [1, 15, 16, 17, 33, 256])
def test_bias_is_8_times_the_column_sum_for_any_k(k: int) -> None:
    values, scale = _weights(k, (2, k, 24))
    exact = 8 * values.sum(axis=1, dtype=np.int64) * unpack_scale_int64(scale)[:, 0].astype(np.float64)
    assert np.array_equal(make_bias(values, scale), exact.astype(np.float32))


def test_values_bytes_and_words_give_the_same_bias() -> None:
    values, scale = _weights()
    bias = make_bias(values, scale)
    assert np.array_equal(make_bias(pack_int4(values), scale), bias)
    assert np.array_equal(make_bias(pack_int4(values, "int32"), scale), bias)
    assert np.array_equal(make_bias(values.astype(np.int32), scale), bias)


def test_n_that_fills_no_word() -> None:
    values, scale = _weights(5, (2, 64, 13))
    exact = 8 * values.sum(axis=1, dtype=np.int64) * unpack_scale_int64(scale)[:, 0]
    assert np.allclose(make_bias(values, scale), exact, rtol=1e-6)


def test_packed_scales_are_read_as_the_device_reads_them() -> None:
    values = np.ones((1, 256, 8), np.int8)
    assert make_bias(values, pack_scale_int64(np.full((1, 1, 8), 0.1, np.float32)))[0, 0] == np.float32(
        2048 * np.uint32(0x3DCCC000).view(np.float32)
    )
    assert make_bias(values, np.full((1, 1, 8), 0.1, np.float32))[0, 0] == np.float32(204.8)


@pytest.mark.parametrize("name", ["w0", "w1", "c2", "c3", "c4", "c5"])
def test_bias_removes_the_shift_of_8_from_the_result(name: str) -> None:
    """With this bias the golden equals the plain product of the quantised operands."""
    operands = make_case(name)
    arrays = operands.arrays
    values, s = (
        unpack_int4(arrays["x2"]).astype(np.float64),
        unpack_scale_int64(arrays["scale"], as_device=True),
    )
    weights = values * s + (0 if operands.offset is None else arrays["offset"].astype(np.float64))
    counts = (
        np.diff(arrays["group_list"], prepend=0)
        if operands.attributes.group_list_type == 0
        else arrays["group_list"]
    )
    expert = np.repeat(np.arange(len(counts)), counts)
    rows = np.einsum("mk,mkn->mn", arrays["x1"][: expert.size].astype(np.float64), weights[expert])
    rows *= (arrays["pertoken_scale"].astype(np.float64) * arrays["logit"])[: expert.size, None]
    plain = np.zeros((operands.batch, rows.shape[1]))
    np.add.at(plain, arrays["row_index"][: expert.size], rows)
    if operands.shared_input is not None:
        start = operands.attributes.shared_input_offset
        shared = arrays["shared_input"].astype(np.float64) * operands.attributes.shared_input_weight
        plain[start : start + len(shared)] += shared
    rebuilt = golden(_with(operands, bias=make_bias(arrays["x2"], arrays["scale"]))).out
    assert np.allclose(rebuilt, plain, rtol=1e-5, atol=1e-5 * np.abs(plain).max())


def _with(operands: Operands, **changes: np.ndarray) -> Operands:
    return Operands(operands.problem, {**operands.arrays, **changes})


def test_forgotten_bias_is_off_by_the_known_amount() -> None:
    operands = make_case("w0")
    assert golden(_with(operands, bias=np.zeros((2, 128), np.float32))).out[:, 0].tolist() == [-320, 288]
    assert golden(operands).out[:, 0].tolist() == [-64, -224]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_each_rank_gets_the_bias_of_its_own_part_of_k(ranks: int) -> None:
    values, scale = _weights()
    bias = make_bias(values, scale, split_k=ranks)
    assert bias.shape == (ranks, 3, 72)
    for rank, part in enumerate(k_slices(256, ranks)):
        assert np.array_equal(bias[rank], make_bias(values[:, part], scale))
    assert np.allclose(bias.sum(axis=0, dtype=np.float64), make_bias(values, scale), rtol=1e-6, atol=1e-5)


def test_offset_is_the_antiquant_offset_times_scale() -> None:
    scale = pack_scale_int64(np.array([[[0.5, 0.25]]], np.float32))
    offset = make_offset(np.array([[[3.0, -2.0]]], np.float32), scale)
    assert offset.dtype == np.float32
    assert offset.tolist() == [[[1.5, -0.5]]]
    assert make_offset(np.array([[3, -2]]), scale).tolist() == [[[1.5, -0.5]]]


def test_each_rank_gets_the_same_offset() -> None:
    scale = np.array([[0.5, 0.25]], np.float32)
    offset = make_offset(np.array([[3.0, -2.0]]), scale, split_k=2)
    assert offset.shape == (2, 1, 1, 2)
    assert offset.tolist() == [[[[1.5, -0.5]]]] * 2


def test_a_bias_of_the_model_is_refused_with_the_reason() -> None:
    values, scale = _weights()
    with pytest.raises(ValueError, match="W4A8 has no place for a bias of the model") as error:
        make_bias(values, scale, model_bias=np.zeros((3, 72), np.float32))
    assert "multiplied by pertoken_scale" in str(error.value)


def test_n_of_words_and_scale_must_agree() -> None:
    words = np.full((2, 256, 16), 0x11111111, np.int32)
    for n in (16, 24):  # 16 is the width of the words themselves, counted as if each held one value
        with pytest.raises(
            ValueError, match=rf"x2 is int32 \(2, 256, 16\) and scale has n {n}: .* the 8 values"
        ):
            make_bias(words, np.ones((2, 1, n), np.float32))
    assert make_bias(words, np.ones((2, 1, 128), np.float32)).shape == (2, 128)


def test_per_group_scales_are_refused() -> None:
    with pytest.raises(ValueError, match=r"scale axis 1 is 2, .*\(per-channel\)"):
        make_bias(np.ones((2, 256, 128), np.int8), np.ones((2, 2, 128), np.float32))


def test_experts_of_scale_and_weights_must_agree() -> None:
    with pytest.raises(ValueError, match="scale has 3 experts, x2 has 2"):
        make_bias(np.ones((2, 64, 8), np.int8), np.ones((3, 8), np.float32))


def test_parts_of_k() -> None:
    assert k_slices(2048, 4)[3] == slice(1536, 2048)
    assert k_slices(96, 3, multiple=32) == [slice(0, 32), slice(32, 64), slice(64, 96)]
    with pytest.raises(ValueError, match="k = 1408 over 4 ranks gives 352 each; expected a multiple of 64"):
        k_slices(1408, 4)
    with pytest.raises(ValueError, match="k = 100 does not divide by 3 ranks"):
        k_slices(100, 3)
    with pytest.raises(ValueError, match="split_k: expected a number of ranks ≥ 1, got 0"):
        make_bias(np.ones((1, 64, 8), np.int8), np.ones((1, 8)), split_k=0)
