"""The sum over all expert-parallel ranks is the single-rank result, for the layouts of real models."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from reference import (
    Operands,
    from_topk,
    golden,
    local_experts,
    make_bias,
    pack_int4,
    pack_scale_int64,
    quantise_int8,
    quantise_mx,
    to_replicas,
)
from reference.routing import RoutedRows

#: Experts and ranks: DeepSeek and GLM, Qwen3 at EP6 (22 or 21 experts), Kimi (14 on a rank), GLM-4.5.
LAYOUTS = [(256, 8), (256, 16), (128, 6), (896, 64), (160, 16)]
BATCH, TOPK = 24, 8


@lru_cache(maxsize=1)
def _w4a8(experts: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(experts)
    values = rng.integers(-8, 8, (experts, 192, 72)).astype(np.int8)
    scale = pack_scale_int64(rng.uniform(1e-3, 2e-2, (experts, 1, 72)), "nearest")
    weights = {"x2": pack_int4(values, "int32"), "scale": scale, "bias": make_bias(values, scale)}
    return rng.normal(0, 1, (BATCH, 192)), weights


@lru_cache(maxsize=1)
def _mx(experts: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(experts)
    quantised = quantise_mx(rng.normal(0, 1, (experts, 96, 24)), axis=1)
    weights = {
        "x2": quantised.values,
        "scale": quantised.scale,
        "bias": np.float32(0.5) * rng.normal(size=(experts, 24)),
    }
    return rng.normal(0, 1, (BATCH, 96)), weights


def _routes(experts: int) -> tuple[np.ndarray, np.ndarray]:
    """Skewed choices of distinct experts, weights of a softmax."""
    rng = np.random.default_rng(experts + 1)
    scores = rng.gumbel(size=(BATCH, experts)) - 0.5 * np.log(np.arange(1, experts + 1))
    ids = np.argsort(-scores, axis=1)[:, :TOPK]
    raw = np.exp(np.take_along_axis(scores, ids, axis=1))
    return ids, raw / raw.sum(axis=1, keepdims=True)


def _run(family: str, hidden: np.ndarray, weights: dict[str, np.ndarray], rows: RoutedRows) -> np.ndarray:
    import ml_dtypes

    call: dict[str, Any] = {**weights, **rows.arguments()}
    x = hidden[rows.row_index]
    if family == "w4a8":
        call["x1"], call["pertoken_scale"] = quantise_int8(x)
        call["platform"] = "atlas_a3"
    else:
        quantised = quantise_mx(x)
        call["x1"], call["pertoken_scale"] = quantised.values, quantised.scale
        call["bias"] = call["bias"].astype(ml_dtypes.bfloat16)
        call["platform"] = "ascend950"
    return golden(Operands.from_arrays(batch=BATCH, **call)).out


@pytest.mark.parametrize("family", ["w4a8", "mx"])
@pytest.mark.parametrize(("experts", "ranks"), LAYOUTS)
def test_ranks_add_up_to_the_single_rank(experts: int, ranks: int, family: str) -> None:
    hidden, weights = _w4a8(experts) if family == "w4a8" else _mx(experts)
    rows = from_topk(*_routes(experts), experts)
    whole = _run(family, hidden, weights, rows)
    total = np.zeros_like(whole)
    for rank in range(ranks):
        mine = local_experts(experts, rank, ranks)
        part = rows.local(rank, ranks).padded(BATCH * TOPK)
        total += _run(family, hidden, {name: array[mine] for name, array in weights.items()}, part)
    assert np.allclose(total, whole, rtol=0, atol=1e-12 * np.abs(whole).max() * TOPK), (
        f"{experts} over {ranks}"
    )
    assert np.abs(whole).min(axis=1).max() > 0


@pytest.mark.parametrize(("experts", "ranks", "redundant"), [(256, 32, 32), (32, 9, 4)])
def test_redundant_experts_add_up_to_the_result_without_them(
    experts: int, ranks: int, redundant: int
) -> None:
    """The busiest experts get a second copy; 256 + 32 over 32 ranks is 9 on each."""
    hidden, weights = _w4a8(experts)
    ids, logit = _routes(experts)
    whole = _run("w4a8", hidden, weights, from_topk(ids, logit, experts))
    busiest = np.argsort(-np.bincount(ids.reshape(-1), minlength=experts), kind="stable")[:redundant]
    placement = np.concatenate([np.arange(experts), busiest])
    rows = from_topk(to_replicas(ids, placement), logit, len(placement))
    total = np.zeros_like(whole)
    for rank in range(ranks):
        mine = placement[local_experts(len(placement), rank, ranks)]
        part = rows.local(rank, ranks).padded(BATCH * TOPK)
        total += _run("w4a8", hidden, {name: array[mine] for name, array in weights.items()}, part)
    assert np.allclose(total, whole, rtol=0, atol=1e-12 * np.abs(whole).max() * TOPK)
