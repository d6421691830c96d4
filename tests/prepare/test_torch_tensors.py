"""Every helper takes torch CPU tensors and gives what it gives for the same NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference import (
    from_topk,
    local_group_list,
    make_bias,
    make_offset,
    pack_int4,
    pack_scale_int64,
    quantise_int4,
    quantise_int8,
    quantise_mx,
    to_count,
    unpack_int4,
)

torch: Any = pytest.importorskip("torch")


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(1).normal(0, 1, (2, 64, 16)).astype(np.float32)


def test_int4_and_its_bias(weights: np.ndarray) -> None:
    quantised = quantise_int4(weights)
    from_torch = quantise_int4(torch.from_numpy(weights))
    assert np.array_equal(from_torch.values, quantised.values)
    values, scale = torch.from_numpy(quantised.values), torch.from_numpy(quantised.scale)
    assert np.array_equal(pack_int4(values, "int32"), pack_int4(quantised.values, "int32"))
    assert np.array_equal(unpack_int4(torch.from_numpy(pack_int4(values))), quantised.values)
    assert np.array_equal(pack_scale_int64(scale), pack_scale_int64(quantised.scale))
    assert np.array_equal(make_bias(values, scale), make_bias(quantised.values, quantised.scale))
    assert np.array_equal(make_offset(torch.ones(2, 16), scale), quantised.scale)


def test_activations_in_bf16(weights: np.ndarray) -> None:
    x = torch.from_numpy(weights[0]).to(torch.bfloat16)
    as_float = x.to(torch.float32).numpy()
    assert np.array_equal(quantise_int8(x)[0], quantise_int8(as_float)[0])
    mine, same = quantise_mx(x), quantise_mx(as_float)
    assert np.array_equal(mine.values.view(np.uint8), same.values.view(np.uint8))


def test_elements_round_as_torch_rounds_them(weights: np.ndarray) -> None:
    """With groups whose scale is one, casting in torch gives the same codes: two independent encoders."""
    x = np.clip(weights.reshape(-1, 32) * 100, -448, 448).astype(np.float32)
    x[:, 0] = 448
    for name in ("float8_e4m3fn", "float8_e5m2"):
        x[:, 0] = {"float8_e4m3fn": 448, "float8_e5m2": 57344}[name]
        codes = torch.from_numpy(x).to(getattr(torch, name)).view(torch.uint8).numpy()
        assert np.array_equal(quantise_mx(x, name).values.view(np.uint8), codes)


def test_routing() -> None:
    ids, logit = torch.tensor([[0, 1], [0, 1]]), torch.tensor([[0.5, 0.25], [0.25, 0.75]])
    rows = from_topk(ids, logit, 2)
    assert rows.row_index.tolist() == [0, 1, 0, 1]
    assert rows.logit.tolist() == [0.5, 0.25, 0.25, 0.75]
    assert to_count(torch.tensor([10, 25, 30])).tolist() == [10, 15, 5]
    assert local_group_list(torch.tensor([2, 2, 0, 0], dtype=torch.int32), 0, 2).tolist() == [2, 2]
