"""Data that leave float32 no room for rounding are recognised, and only these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference import Operands, golden, golden_stages, make_case
from reference.cases import Case


def integer_call(seed: int) -> Operands:
    """Small integers, scales of one, logits that are powers of two."""
    rng = np.random.default_rng(seed)
    e, batch = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    counts = rng.integers(0, 6, e)
    path = ("mxfp8", "mxfp4")[seed % 2]
    options: dict[str, Any] = {
        "integers": True,
        "counts": tuple(counts.tolist()),
        "transpose_x2": bool(seed // 2 % 2),
    }
    k = 32 * int(rng.integers(1, 12))
    return Case("integers", path, int(counts.sum()), k, 64, e, batch, "", "ascend950", options).make(seed)


def changed(call: Operands, **arrays: Any) -> Operands:
    return type(call)(call.problem, {**call.arrays, **arrays})


@pytest.mark.parametrize("seed", range(40))
def test_exact_calls_give_the_same_bits_in_any_order(seed: int) -> None:
    """Every row's float32 matmul over shuffled k, and the scatter in shuffled order."""
    call = integer_call(seed)
    reference, stages = golden(call, magnitudes=True), golden_stages(call)
    assert reference.exact
    rng = np.random.default_rng(seed)
    out = np.zeros(reference.out.shape, np.float32)
    for i in rng.permutation(len(stages.rows)):
        out[stages.targets[i]] += stages.logit[i].astype(np.float32)
    np.testing.assert_array_equal(out, reference.out)


def test_each_operand_can_end_exactness() -> None:
    call = make_case("c8")
    assert golden(call, magnitudes=True).exact
    logit = call.arrays["logit"].copy()
    logit[0] = np.float32(0.1)
    scale = call.arrays["scale"].view(np.uint8).copy()
    scale[0, 0, 0, 0] = 100
    rows = call.arrays["pertoken_scale"].view(np.uint8).copy()
    rows[0, 0, 0] = 255
    for changes in (
        {"logit": logit},
        {"scale": scale.view(call.arrays["scale"].dtype)},
        {"pertoken_scale": rows.view(call.arrays["scale"].dtype)},
    ):
        assert not golden(changed(call, **changes), magnitudes=True).exact, changes


def test_each_operand_of_w4a8_can_end_exactness() -> None:
    call = make_case("w1")
    assert golden(call, magnitudes=True).exact
    for name, value in (("pertoken_scale", 0.1), ("bias", 0.1), ("logit", 0.3)):
        array = call.arrays[name].copy()
        array.reshape(-1)[0] = value
        assert not golden(changed(call, **{name: array}), magnitudes=True).exact, name


def test_values_of_rows_that_take_no_part_do_not_matter() -> None:
    """Tail rows and experts without rows may hold anything."""
    call = changed(make_case("w1"), group_list=np.array([1, 0]))
    arrays = {name: call.arrays[name].copy() for name in ("logit", "bias")}
    arrays["logit"][1:] = np.nan
    arrays["bias"][1] = 0.1
    assert golden(changed(call, **arrays), magnitudes=True).exact


def test_sums_beyond_24_bits_are_not_exact() -> None:
    """32 ones times 2^20, and 32 times 1: 2^25 of the unit 1; with 2^17 it is 2^22."""
    call = make_case("m0")
    codes = call.arrays["scale"].view(np.uint8).copy()
    codes[..., 0] = 127 + 20
    large = changed(call, scale=codes.view(call.arrays["scale"].dtype))
    assert not golden(large, magnitudes=True).exact
    codes[..., 0] = 127 + 17
    assert golden(changed(call, scale=codes.view(call.arrays["scale"].dtype)), magnitudes=True).exact
