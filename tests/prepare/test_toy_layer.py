"""From a float MoE layer to the operator and back: quantise, route, run, and stay within a derived bound.

The layer: each token visits its top-k experts; expert g maps the token's activation a (k values) to a · W_g
(n values); the results are weighted and added to the shared expert's.  With x̂ = x + δx and ŵ = w + δw

    |x̂·ŵ - x·w| ≤ Σ_k |x|·|δw| + |ŵ|·|δx|

where |δx| and |δw| are at most half a step of the quantiser.  That holds always.  Rounding errors are also
independent and spread evenly over a step, so the sum has the standard deviation
σ² = Σ_k (x·step_w)²/12 + (ŵ·step_x)²/12; no element in a billion is off by 6σ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gmmfr
from reference import (
    Operands,
    from_topk,
    golden,
    k_slices,
    local_experts,
    make_bias,
    make_offset,
    pack_int4,
    pack_scale_int64,
    quantise_int4,
    quantise_int8,
    quantise_mx,
)
from reference.formats import decode_table
from reference.judging import Judge
from reference.routing import RoutedRows

BATCH, TOPK, EXPERTS = 12, 3, 8
EXTENTS = {"w4a8": (512, 72), "w4a8_offset": (512, 72), "mxfp8": (192, 40), "mxfp4": (192, 40)}
FAMILIES = tuple(EXTENTS)
ELEMENTS = {"mxfp8": ("float8_e4m3fn", 3), "mxfp4": ("float4_e2m1fn", 1)}


@dataclass(frozen=True)
class Layer:
    """Floats: activations (batch, topk, k), weights (e, k, n), bias (e, n) or None, shared (batch, n)."""

    activations: np.ndarray
    weights: np.ndarray
    bias: np.ndarray | None
    shared: np.ndarray
    ids: np.ndarray
    logit: np.ndarray

    def result(self) -> np.ndarray:
        """The layer in float64, token by token."""
        out = self.shared.astype(np.float64)
        for slot in range(TOPK):
            expert = self.ids[:, slot]
            y = np.einsum("tk,tkn->tn", self.activations[:, slot], self.weights[expert])
            out += self.logit[:, slot, None] * (y + (0 if self.bias is None else self.bias[expert]))
        return out


@cache
def make_layer(family: str) -> Layer:
    k, n = EXTENTS[family]
    rng = np.random.default_rng([len(family), k])
    scores = rng.gumbel(size=(BATCH, EXPERTS))
    ids = np.argsort(-scores, axis=1)[:, :TOPK]
    raw = np.exp(np.take_along_axis(scores, ids, 1))
    hidden = rng.normal(0, 1, (BATCH, TOPK, k))
    mx = family.startswith("mx")
    return Layer(
        activations=hidden / (1 + np.exp(-hidden)),  # SiLU
        weights=rng.normal(0.004, 0.02, (EXPERTS, k, n)),
        bias=rng.normal(0, 0.5, (EXPERTS, n)).astype(ml_dtypes.bfloat16).astype(float) if mx else None,
        shared=rng.normal(0, 0.3, (BATCH, n)).astype(ml_dtypes.bfloat16).astype(float),
        ids=ids,
        logit=(raw / raw.sum(axis=1, keepdims=True)).astype(np.float32).astype(float),
    )


@dataclass(frozen=True)
class Prepared:
    """Weights as the operator takes them, what they stand for, and the width of a quantisation step."""

    arguments: dict[str, Any]
    values: np.ndarray
    step: np.ndarray

    def experts(self, mine: slice) -> Prepared:
        return Prepared(
            {key: value[mine] for key, value in self.arguments.items()}, self.values[mine], self.step[mine]
        )


def prepare_weights(family: str, weights: np.ndarray, bias: np.ndarray | None) -> Prepared:
    if family.startswith("w4a8"):
        quantised = quantise_int4(weights, symmetric=family == "w4a8")
        scale = pack_scale_int64(quantised.scale)
        arguments = {
            "x2": pack_int4(quantised.values, "int32"),
            "scale": scale,
            "bias": make_bias(quantised.values, scale),
        }
        if quantised.antiquant_offset is not None:
            arguments["offset"] = make_offset(quantised.antiquant_offset, scale)
        step = np.broadcast_to(quantised.scale.astype(float), weights.shape)
        return Prepared(arguments, quantised.dequantise(), step)
    mx = quantise_mx(weights, ELEMENTS[family][0], axis=1, rounding="ceil")
    assert bias is not None
    arguments = {"x2": mx.values, "scale": mx.scale, "bias": bias.astype(ml_dtypes.bfloat16)}
    return Prepared(arguments, mx.dequantise(), _mx_step(family, mx.dequantise(), mx.scale, 1))


def prepare_rows(family: str, rows: np.ndarray) -> Prepared:
    if family.startswith("w4a8"):
        x1, scale = quantise_int8(rows)
        step = np.broadcast_to(scale[:, None].astype(float), rows.shape)
        return Prepared({"x1": x1, "pertoken_scale": scale}, x1 * step, step)
    mx = quantise_mx(rows, ELEMENTS[family][0], rounding="ceil")
    return Prepared(
        {"x1": mx.values, "pertoken_scale": mx.scale},
        mx.dequantise(),
        _mx_step(family, mx.dequantise(), mx.scale, 1),
    )


def _mx_step(family: str, values: np.ndarray, scale: np.ndarray, axis: int) -> np.ndarray:
    """The distance of neighbouring values of the element format at each value, times the scale."""
    name, mantissa = ELEMENTS[family]
    factors = decode_table("float8_e8m0fnu")[scale.view(np.uint8)]
    each = np.moveaxis(factors, -1, axis + 1).reshape(*values.shape[:axis], -1, *values.shape[axis + 1 :])
    each = np.repeat(each, 32, axis=axis)[(slice(None),) * axis + (slice(values.shape[axis]),)]
    table = decode_table(name)
    smallest = table[table > 0].min()
    with np.errstate(divide="ignore"):
        binade = np.exp2(np.floor(np.log2(np.abs(values) / each)) - mantissa)
    return np.maximum(binade, smallest) * each


@dataclass(frozen=True)
class Part:
    """One rank's call and its share of the two bounds, both (batch, n)."""

    operands: Operands
    hard: np.ndarray
    variance: np.ndarray


def make_part(
    family: str, layer: Layer, rows: RoutedRows, weights: Prepared, k: slice, shared: slice
) -> Part:
    flat = layer.activations[:, :, k].reshape(BATCH * TOPK, -1)[rows.gather]
    x = prepare_rows(family, flat)
    call: dict[str, Any] = {**x.arguments, **weights.arguments, **rows.arguments()}
    if layer.shared[shared].size:
        call["shared_input"] = layer.shared[shared].astype(ml_dtypes.bfloat16)
        call["shared_input_offset"] = shared.start
    if family.startswith("mx"):
        call["dtypes"] = {"x1": ELEMENTS[family][0], "x2": ELEMENTS[family][0]}  # FP4 comes as bytes of two
    platform = "atlas_a2" if family.startswith("w4a8") else "ascend950"
    operands = Operands.from_arrays(platform=platform, batch=BATCH, **call)
    expert = np.repeat(np.arange(rows.counts.size), rows.counts)
    token, logit = rows.row_index[: rows.total], rows.logit[: rows.total, None].astype(float)
    exact, step_x, step_w = flat[: rows.total], x.step[: rows.total], weights.step[expert]
    w = weights.values[expert]
    hard = np.einsum("mk,mkn->mn", np.abs(exact), step_w / 2) + np.einsum("mk,mkn->mn", step_x / 2, np.abs(w))
    variance = np.einsum("mk,mkn->mn", exact**2, step_w**2 / 12) + np.einsum(
        "mk,mkn->mn", step_x**2 / 12, w**2
    )
    bounds = np.zeros((2, BATCH, w.shape[2]))
    np.add.at(bounds[0], token, logit * hard)
    np.add.at(bounds[1], token, logit**2 * variance)
    reference = golden(operands, magnitudes=True)  # what the arithmetic of the device may add
    arithmetic = Judge(reference).bound(slice(None))
    return Part(operands, bounds[0] + arithmetic, bounds[1] + arithmetic**2 / 36)


def split(family: str, how: str) -> list[Part]:
    """The calls of all ranks: one rank, three expert-parallel ranks (3, 3 and 2 experts), or two along k."""
    layer, k = make_layer(family), EXTENTS[family][0]
    rows = from_topk(layer.ids, layer.logit, EXPERTS)
    every = slice(0, BATCH)
    if how == "one":
        weights = prepare_weights(family, layer.weights, layer.bias)
        return [make_part(family, layer, rows, weights, slice(None), every)]
    if how == "ep":
        weights = prepare_weights(family, layer.weights, layer.bias)
        tokens = [slice(rank * BATCH // 3, (rank + 1) * BATCH // 3) for rank in range(3)]
        return [
            make_part(
                family,
                layer,
                rows.local(rank, 3).padded(BATCH * TOPK),  # tail rows repeat token 0 and are never read
                weights.experts(local_experts(EXPERTS, rank, 3)),
                slice(None),
                tokens[rank],
            )
            for rank in range(3)
        ]
    parts = k_slices(k, 2, multiple=64 if family.startswith("w4a8") else 32)
    empty = slice(0, 0)
    return [
        make_part(family, layer, rows, weights, part, every if rank == 0 else empty)
        for rank, (part, weights) in enumerate(zip(parts, _split_weights(family, layer, parts), strict=True))
    ]


def _split_weights(family: str, layer: Layer, parts: list[slice]) -> list[Prepared]:
    """Weights of each rank along k: W4A8 keeps one scale for all of k, the model's bias is added once."""
    if not family.startswith("w4a8"):
        nothing = np.zeros_like(layer.bias)
        return [
            prepare_weights(family, layer.weights[:, part], layer.bias if rank == 0 else nothing)
            for rank, part in enumerate(parts)
        ]
    whole = prepare_weights(family, layer.weights, None)
    biases = make_bias(whole.arguments["x2"], whole.arguments["scale"], split_k=len(parts))
    return [
        Prepared(
            {**whole.arguments, "x2": whole.arguments["x2"][:, part], "bias": bias},
            whole.values[:, part],
            whole.step[:, part],
        )
        for part, bias in zip(parts, biases, strict=True)
    ]


def run_all(parts: list[Part], backend: str) -> np.ndarray:
    results = [gmmfr.run(part.operands, backend=backend) for part in parts]
    for result in results:
        if not result.ran and not result.failed:
            pytest.skip(f"{backend}: {result.reason}")
    return np.sum([result.out.astype(np.float64) for result in results], axis=0)


@pytest.mark.parametrize("backend", ["golden", "simulator"])
@pytest.mark.parametrize("how", ["one", "ep", "tp"])
@pytest.mark.parametrize("family", FAMILIES)
def test_layer_stays_within_the_derived_bounds(family: str, how: str, backend: str) -> None:
    parts = split(family, how)
    error = np.abs(run_all(parts, backend) - make_layer(family).result())
    hard = np.sum([part.hard for part in parts], axis=0)
    deviation = np.sqrt(np.sum([part.variance for part in parts], axis=0))
    assert (error <= hard).all()
    assert (error <= 6 * deviation).all()
    rms = np.sqrt(np.mean((error / deviation) ** 2))
    assert 0.5 < rms < 1.3, "the deviation must describe the errors, or the bound says nothing"


def _forget_bias(part: Part) -> Part:
    return _change(part, bias=np.zeros_like(part.operands.arrays["bias"]))


def _logit_in_token_order(part: Part) -> Part:
    return _change(part, logit=make_layer("w4a8").logit.reshape(-1).astype(np.float32))


def _swap_nibbles(part: Part) -> Part:
    words = part.operands.arrays["x2"]
    return _change(part, x2=((words & 0x0F0F0F0F) << 4) | ((words >> 4) & 0x0F0F0F0F))


def _shift_counts(part: Part) -> Part:
    return _change(part, group_list=np.roll(part.operands.arrays["group_list"], 1))


def _change(part: Part, **arrays: np.ndarray) -> Part:
    return replace(part, operands=Operands(part.operands.problem, {**part.operands.arrays, **arrays}))


@pytest.mark.parametrize("mistake", [_forget_bias, _logit_in_token_order, _swap_nibbles, _shift_counts])
def test_mistakes_of_preparation_leave_the_bound(mistake: Any) -> None:
    (part,) = split("w4a8", "one")
    error = np.abs(run_all([mistake(part)], "golden") - make_layer("w4a8").result())
    assert (error > 6 * np.sqrt(part.variance)).any()


def test_bias_of_all_of_k_on_each_rank_leaves_the_bound() -> None:
    parts = split("w4a8", "tp")
    whole = split("w4a8", "one")[0].operands.arrays["bias"]
    error = np.abs(
        run_all([_change(part, bias=whole) for part in parts], "golden") - make_layer("w4a8").result()
    )
    assert (error > 6 * np.sqrt(sum(part.variance for part in parts))).any()
