"""Mistakes in what is added or multiplied beside the matmul: bias, pertoken_scale, offset, shared input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reference.contribution import Contribution
from reference.diagnosis.call import Call, Outcome
from reference.diagnosis.makers import ChangedW4a8, read_scale
from reference.diagnosis.routing import factor_order
from reference.golden_operator import Golden, scatter_add
from reference.golden_w4a8 import integer_products
from reference.operands import Array, Operands


def bias_left_out(call: Call) -> Iterator[Outcome]:
    """No bias."""
    if call.operands["bias"] is not None:
        yield "", call.run(_without_bias(call))


def _without_bias(call: Call) -> Operands:
    return call.changed(bias=np.zeros_like(call.arrays["bias"]))


def bias_scaled(call: Call) -> Iterator[Outcome]:
    """Bias off by the factor 8 of the nibble split, or added twice."""
    bias = call.operands["bias"]
    if bias is None:
        return
    for what, factor in (
        ("twice", 2),
        ("without its factor 8", 0.125),
        ("with a factor 8 too many", 8),
        ("negated", -1),
    ):
        yield what, call.run(call.changed(bias=bias.astype(np.float32) * np.float32(factor)))


def bias_without_scale(call: Call) -> Iterator[Outcome]:
    """W4A8: the bias is 8 · Σ w, its scale forgotten, or multiplied by the scale once more."""
    if not call.is_w4a8:
        return
    bias, scale = call.arrays["bias"].astype(np.float64), read_scale(call.arrays["scale"][:, 0], "")
    with np.errstate(all="ignore"):
        yield (
            "not multiplied by the scale",
            call.run(call.changed(bias=np.where(scale == 0, 0, bias / scale))),
        )
    yield "multiplied by the scale twice", call.run(call.changed(bias=bias * scale))


def bias_recomputed(call: Call) -> Iterator[Outcome]:
    """W4A8: the result belongs to the bias 8 · Σ w·s, and the call's bias is another."""
    if not call.is_w4a8:
        return
    yield "", call.run(call.changed(bias=compensation(call, call.arrays["x2"])))


def compensation(call: Call, words: Array) -> NDArray[np.float64]:
    """8 · Σ_k w·s for int4 words (e, k, n/8)."""
    ones = np.ones((1, words.shape[1]), np.float32)
    scale = read_scale(call.arrays["scale"][:, 0], "")
    return np.stack(
        [8 * integer_products(w, ones, None)[0][0] * s for w, s in zip(words, scale, strict=True)]
    )


def compensation_left_out(call: Call) -> Iterator[Outcome]:
    """W4A8: the -8 · Σ w of the nibble split is missing, so that the bias has nothing to undo."""
    if call.is_w4a8:
        yield "", call.run(maker=lambda operands: ChangedW4a8(operands, shift=0))


def bias_of_other_expert(call: Call) -> Iterator[Outcome]:
    """Bias of the next expert, the one before, or expert 0."""
    bias = call.operands["bias"]
    if bias is None or len(bias) < 2:
        return
    for what, wrong in other_experts(bias):
        yield what, call.run(call.changed(bias=wrong))


def other_experts(array: Array) -> Iterator[tuple[str, Array]]:
    """``array`` (e, …) as read by wrong expert numbers."""
    e = len(array)
    yield "of the next expert", take_experts(array, (np.arange(e) + 1) % e)
    yield "of the expert before", take_experts(array, (np.arange(e) - 1) % e)
    yield "of expert 0 for every expert", take_experts(array, np.zeros(e, np.int64))
    yield "of the experts in reverse order", take_experts(array, np.arange(e)[::-1])


def take_experts(array: Array, experts: NDArray[np.int64]) -> Array:
    """``array[experts]`` in the memory layout of ``array``: packed values stay along their axis."""
    if array.ndim == 3 and not array.flags.c_contiguous and array.swapaxes(1, 2).flags.c_contiguous:
        swapped: Array = take_experts(array.swapaxes(1, 2), experts).swapaxes(1, 2)
        return swapped
    taken: Array = np.take(array, experts, axis=0)
    return taken


def bias_after_logit(call: Call) -> Iterator[Outcome]:
    """Bias added after the row's factors instead of before."""
    bias = call.operands["bias"]
    if bias is None:
        return
    plain = call.run(_without_bias(call))
    ones = np.ones(call.operands.problem.m)
    yield "after logit", _with_bias(call, plain, lambda part: ones[part])
    if call.is_w4a8:
        logit, scale = call.arrays["logit"], call.arrays["pertoken_scale"]
        yield "after pertoken_scale, before logit", _with_bias(call, plain, lambda part: logit[part])
        yield "after logit, before pertoken_scale", _with_bias(call, plain, lambda part: scale[part])


def _with_bias(call: Call, plain: Golden, factor: Callable[[slice], NDArray[np.floating]]) -> Golden:
    """``plain`` with every row's bias times ``factor`` of the row added."""
    result = replace(plain, out=plain.out.copy())
    bias = call.arrays["bias"].astype(np.float64)
    for group, part in call.segments:
        rows = factor(part).astype(np.float64)[:, None] * bias[group]
        sizes = np.abs(rows).astype(np.float32)
        zero = None if plain.rounding is None else np.zeros_like(sizes)
        scatter_add(result, call.targets[part], Contribution(rows, sizes, zero, 0))
    return result


def pertoken_left_out(call: Call) -> Iterator[Outcome]:
    """W4A8: pertoken_scale not applied, or applied twice."""
    if call.is_w4a8:
        scale = call.arrays["pertoken_scale"]
        yield "not applied", call.run(call.changed(pertoken_scale=np.ones_like(scale)))
        yield "applied twice", call.run(call.changed(pertoken_scale=scale * scale))


def pertoken_order(call: Call) -> Iterator[Outcome]:
    """pertoken_scale taken in another order than the rows'."""
    yield from factor_order(call, "pertoken_scale")


def offset_wrong(call: Call) -> Iterator[Outcome]:
    """W4A8: the offset left out, negated, not multiplied by Σ x, or multiplied by the scale again."""
    offset = call.operands["offset"]
    if offset is None or not call.is_w4a8:
        return
    yield "left out", call.run(call.changed(offset=None))
    yield "negated", call.run(call.changed(offset=-offset))
    yield "not multiplied by the row's sum of x1", call.run(maker=lambda o: ChangedW4a8(o, row_sums=False))
    scale = read_scale(call.arrays["scale"], "").astype(np.float32)
    yield "multiplied by the scale again", call.run(call.changed(offset=offset * scale))
    for what, wrong in other_experts(offset):
        yield what, call.run(call.changed(offset=wrong))


def shared_left_out(call: Call) -> Iterator[Outcome]:
    """Shared input not added."""
    if call.operands["shared_input"] is not None:
        yield "", call.run(call.changed(shared_input=None))


def shared_weight(call: Call) -> Iterator[Outcome]:
    """shared_input_weight not applied, or applied twice."""
    if call.operands["shared_input"] is None:
        return
    weight = call.operands.attributes.shared_input_weight
    yield "not applied", call.run(call.changed(attributes={"shared_input_weight": 1.0}))
    yield "applied twice", call.run(call.changed(attributes={"shared_input_weight": weight * weight}))
    yield "read as 0", call.run(call.changed(attributes={"shared_input_weight": 0.0}))


def shared_offset(call: Call) -> Iterator[Outcome]:
    """Shared rows set at another row of out."""
    shared = call.operands["shared_input"]
    if shared is None:
        return
    routed = replace(call.clean, out=call.clean.out - call.initial().out)
    weight = np.float32(call.operands.attributes.shared_input_weight).astype(np.float64)
    values = shared.astype(np.float64) * weight
    offset = call.operands.attributes.shared_input_offset
    last = call.operands.batch - len(shared)
    for start in sorted({0, offset - 1, offset + 1, offset * len(shared), last}):
        if 0 <= start <= last and start != offset:
            out = routed.out.copy()
            out[start : start + len(shared)] += values
            yield f"at row {start} instead of {offset}", replace(routed, out=out)
    if offset + 1 > last >= 0 and len(shared) > 1:
        out = routed.out.copy()
        out[offset + 1 :] += values[: call.operands.batch - offset - 1]
        yield f"at row {offset + 1} instead of {offset}, cut off at the end", replace(routed, out=out)
    yield "rows in reverse order", call.run(call.changed(shared_input=shared[::-1]))


def shared_through_row_index(call: Call) -> Iterator[Outcome]:
    """Shared row i added to row row_index[i], or after the scatter over what is there."""
    shared = call.operands["shared_input"]
    if shared is None:
        return
    weight = np.float32(call.operands.attributes.shared_input_weight).astype(np.float64)
    values, offset = shared.astype(np.float64) * weight, call.operands.attributes.shared_input_offset
    out = call.clean.out - call.initial().out
    if len(shared) <= call.total:
        scattered = out.copy()
        np.add.at(scattered, call.targets[: len(shared)], values)
        yield "shared row i added to row row_index[i]", replace(call.clean, out=scattered)
    out[offset : offset + len(shared)] = values
    yield "shared rows overwrite what was added", replace(call.clean, out=out)
