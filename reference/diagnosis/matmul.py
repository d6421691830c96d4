"""Mistakes in the matmul's operands: weights, scales, nibbles, layouts, number formats, precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reference.diagnosis.addends import compensation, other_experts
from reference.diagnosis.call import Call, Outcome, change, reduce_columns
from reference.diagnosis.makers import NARROW, ChangedW4a8, LinearScales, RoundedMx
from reference.diagnosis.routing import scaled
from reference.formats import number_format
from reference.operands import Array


def has_mx_rows(call: Call) -> bool:
    """Whether the call is on the MX path and has rows to process."""
    return not call.is_w4a8 and call.total > 0


def swap_nibbles(array: Array) -> Array:
    """Low and high nibble of every byte exchanged; the same type and layout."""
    raw = array if array.dtype == np.uint8 else array.view(np.uint8)
    swapped = (raw << 4) | (raw >> 4)
    return swapped if array.dtype == np.uint8 else swapped.view(array.dtype)


def nibbles_swapped(call: Call) -> Iterator[Outcome]:
    """The high nibble read first."""
    problem = call.operands.problem
    if call.is_w4a8:
        words = swap_nibbles(call.arrays["x2"])
        yield "of x2", call.run(call.changed(x2=words))
        yield "of x2, and in the bias too", call.run(call.changed(x2=words, bias=compensation(call, words)))
        return
    packed = [name for name in ("x1", "x2") if number_format(problem.spec(name).dtype).per_byte == 2]
    for name in packed:
        yield f"of {name}", call.run(call.changed({name: swap_nibbles(call.arrays[name])}))
    if len(packed) == 2:
        both = {name: swap_nibbles(call.arrays[name]) for name in packed}
        yield "of x1 and x2", call.run(call.changed(both))


def int4_misread(call: Call) -> Iterator[Outcome]:
    """INT4 words read from the other end, or as value + 8."""
    if not call.is_w4a8:
        return
    words = call.arrays["x2"]
    reverse = swap_nibbles(np.ascontiguousarray(words).byteswap())
    yield "the eight values of a word in reverse order", call.run(call.changed(x2=reverse))
    flipped = (words.view(np.uint32) ^ np.uint32(0x88888888)).view(np.int32)
    yield "values stored with 8 added instead of two's complement", call.run(call.changed(x2=flipped))


def weights_of_other_expert(call: Call) -> Iterator[Outcome]:
    """Weights of the next expert, the one before, or expert 0, alone or with their scales and bias."""
    if call.operands.problem.e < 2:
        return
    weights = dict(other_experts(call.arrays["x2"]))
    scales = dict(other_experts(call.arrays["scale"]))
    bias = {} if call.operands["bias"] is None else dict(other_experts(call.arrays["bias"]))
    for what in weights:
        yield what, call.run(call.changed(x2=weights[what]))
        with_scale = {"x2": weights[what], "scale": scales[what]}
        yield f"{what}, and the scales", call.run(call.changed(with_scale))
        if bias:
            yield f"{what}, scales and bias too", call.run(call.changed(with_scale, bias=bias[what]))


def scales_of_other_expert(call: Call) -> Iterator[Outcome]:
    """Scales of the next expert, the one before, or expert 0."""
    if call.operands.problem.e > 1:
        for what, wrong in other_experts(call.arrays["scale"]):
            yield what, call.run(call.changed(scale=wrong))


def weight_layout(call: Call) -> Iterator[Outcome]:
    """Weight bytes of one layout, (e, k, n) or (e, n, k), read as the other."""
    if not has_mx_rows(call):
        return
    problem, weight = call.whole.problem, call.whole.arrays["x2"]
    if not weight.flags.c_contiguous:
        return
    k_first = not problem.x2_is_transposed
    per = number_format(problem.spec("x2").dtype).per_byte
    shape = (problem.e, problem.n, problem.k // per) if k_first else (problem.e, problem.k, problem.n // per)
    if shape[2] * per != (problem.k if k_first else problem.n):
        return
    spec = replace(problem.spec("x2"), shape=(*shape[:2], shape[2] * per), strides=None)
    specs = {**problem.arguments, "x2": spec}
    attributes = replace(problem.attributes, transpose_x2=k_first)
    other = replace(call.whole, problem=replace(problem, arguments=specs, attributes=attributes))
    scale = call.whole.arrays["scale"].swapaxes(1, 2)
    scale_spec = replace(problem.spec("scale"), shape=tuple(scale.shape), strides=None)
    specs["scale"] = scale_spec
    other = replace(other, problem=replace(other.problem, arguments=specs))
    other = change(other, {"x2": weight.reshape(shape), "scale": scale})
    yield "", call.run(reduce_columns(other, call.columns))


def formats_exchanged(call: Call) -> Iterator[Outcome]:
    """FP8 codes of one kind read as the other."""
    kinds = {"float8_e4m3fn": "float8_e5m2", "float8_e5m2": "float8_e4m3fn"}
    named = {name: call.operands.problem.spec(name).dtype for name in ("x1", "x2")}
    changes = {name: kinds[kind] for name, kind in named.items() if kind in kinds}
    for name, kind in changes.items():
        yield f"{name} read as {kind}", call.run(call.changed(dtypes={name: kind}))
    if len(changes) == 2:
        yield "both read as the other kind", call.run(call.changed(dtypes=changes))


def tail_of_k_left_out(call: Call) -> Iterator[Outcome]:
    """The last columns of x1 never multiplied."""
    k = call.operands.problem.k
    lengths = sorted({t for t in (32, 64, k % 64, k % 128, k % 256, k % 512, k % 1024) if 0 < t < k})
    for length in lengths:
        weight = np.array(call.arrays["x2"])  # in the same memory layout
        axis = 2 if call.operands.problem.x2_is_transposed else 1
        first = (k - length) * weight.shape[axis] // k
        np.moveaxis(weight, axis, 0)[first:] = 0
        yield f"the last {length}", call.run(call.changed(x2=weight))


def scale_slots_exchanged(call: Call) -> Iterator[Outcome]:
    """The two scales of each 64 columns exchanged."""
    if not has_mx_rows(call):
        return
    x, w = call.arrays["pertoken_scale"][..., ::-1], call.arrays["scale"][..., ::-1]
    yield from _on_sides(call, x, w)


def _on_sides(call: Call, x: Array, w: Array) -> Iterator[Outcome]:
    yield "of pertoken_scale", call.run(call.changed(pertoken_scale=x))
    yield "of scale", call.run(call.changed(scale=w))
    yield "of pertoken_scale and scale", call.run(call.changed(pertoken_scale=x, scale=w))


def scale_slot_ignored(call: Call) -> Iterator[Outcome]:
    """One scale for 64 columns: the first of each pair."""
    if has_mx_rows(call):
        yield from _on_sides(call, *(np.repeat(a[..., :1], 2, axis=-1) for a in _scales(call)))


def _scales(call: Call) -> tuple[Array, Array]:
    return call.arrays["pertoken_scale"], call.arrays["scale"]


def scale_left_out(call: Call) -> Iterator[Outcome]:
    """Scales not applied."""
    if call.is_w4a8:
        one = np.full_like(call.arrays["scale"], 0x3F800000)
        yield "", call.run(call.changed(scale=one))
    elif has_mx_rows(call):
        yield from _on_sides(call, *(np.full(a.shape, 127, np.uint8).view(a.dtype) for a in _scales(call)))


def scale_off_by_one(call: Call) -> Iterator[Outcome]:
    """E8M0 bytes one too large or too small: a bias of 126 or 128."""
    if not has_mx_rows(call):
        return
    for what, step in (("too large by 1", 1), ("too small by 1", -1)):
        x, w = (_stepped(a, step) for a in _scales(call))
        for side, golden in _on_sides(call, x, w):
            yield f"{what}, {side}", golden


def _stepped(scale: Array, step: int) -> Array:
    codes = np.ascontiguousarray(scale).view(np.uint8).astype(np.int16)
    moved = np.where(codes == 255, 255, np.clip(codes + step, 0, 254))
    return moved.astype(np.uint8).view(scale.dtype)


def scale_read_linearly(call: Call) -> Iterator[Outcome]:
    """E8M0 bytes read as plain numbers."""
    if not has_mx_rows(call):
        return
    for what, x, w in (("pertoken_scale", True, False), ("scale", False, True), ("both", True, True)):
        yield what, call.run(maker=partial(LinearScales, x=x, w=w))


def sides_exchanged(call: Call) -> Iterator[Outcome]:
    """The scale of x1 used for x2 and the other way round."""
    if not has_mx_rows(call):
        return
    x, w = call.whole.arrays["pertoken_scale"], call.whole.arrays["scale"]
    if not x.size or not w.size:
        return
    wrong_x = np.resize(_flat(w), x.shape).view(x.dtype)
    wrong_w = np.resize(_flat(x), w.shape).view(w.dtype)
    yield "", call.run(call.changed(pertoken_scale=wrong_x, scale=call.reduced("scale", wrong_w)))


def _flat(scale: Array) -> NDArray[np.uint8]:
    return np.ascontiguousarray(scale).view(np.uint8).reshape(-1)


def scale_layout(call: Call) -> Iterator[Outcome]:
    """Scale bytes read in another order of axes."""
    if not has_mx_rows(call):
        return
    scale, rows = call.whole.arrays["scale"], call.whole.arrays["pertoken_scale"]
    if not scale.size or not rows.size:
        return
    for what, wrong in _layouts(scale, call.whole.problem.x2_is_transposed):
        yield what, call.run(call.changed(scale=call.reduced("scale", wrong)))
    m, pairs, _ = rows.shape
    flat = _flat(rows)
    by_pair = flat.reshape(pairs, m, 2).swapaxes(0, 1).view(rows.dtype)
    by_slot = flat.reshape(2 * pairs, m).T.reshape(m, pairs, 2).view(rows.dtype)
    yield "pertoken_scale read as (k/64, m, 2)", call.run(call.changed(pertoken_scale=by_pair))
    yield "pertoken_scale read as (k/32, m)", call.run(call.changed(pertoken_scale=by_slot))


def _layouts(scale: Array, transposed: bool) -> Iterator[tuple[str, Array]]:
    """Wrong readings of the bytes of ``scale`` (e, k/64, n, 2) or (e, n, k/64, 2), in its own shape."""
    e, first, second, _ = scale.shape
    flat = _flat(scale)
    swapped = flat.reshape(e, second, first, 2).swapaxes(1, 2)
    name = "(e, k/64, n, 2)" if transposed else "(e, n, k/64, 2)"
    yield f"scale read as {name}", swapped.view(scale.dtype)
    if transposed:
        plain = flat.reshape(e, 2 * second, first).swapaxes(1, 2).reshape(e, first, second, 2)
        yield "scale read as (e, k/32, n)", plain.view(scale.dtype)
    else:
        plain = flat.reshape(e, first, 2, second).swapaxes(2, 3)
        yield "scale read as (e, k/32, n)", np.ascontiguousarray(plain).view(scale.dtype)


def scale_block_shifted(call: Call) -> Iterator[Outcome]:
    """Each block of 32 columns scaled by its neighbour's factor."""
    if not has_mx_rows(call):
        return
    x, w = _scales(call)
    for what, step in (("of the next block", -1), ("of the block before", 1)):
        rolled_x = np.roll(x.reshape(len(x), -1), step, axis=1).reshape(x.shape)
        axis = 1 if not call.operands.problem.x2_is_transposed else 2
        ordered = np.moveaxis(w, axis, -2)
        blocks = np.roll(ordered.reshape(*ordered.shape[:-2], -1), step, axis=-1).reshape(ordered.shape)
        for side, golden in _on_sides(call, rolled_x, np.moveaxis(blocks, -2, axis)):
            yield f"{what}, {side}", golden


def scale_bits_misread(call: Call) -> Iterator[Outcome]:
    """W4A8: the INT64 scale read in another way than float32 bits in its low word."""
    if not call.is_w4a8:
        return
    readings = {
        "cast to a number": "number",
        "as the bits of a float64": "float64",
        "with all 23 bits of the mantissa": "all_bits",
        "through float16": "float16",
    }
    for what, reading in readings.items():
        yield what, call.run(maker=partial(ChangedW4a8, scale=reading))


def nibble_split(call: Call) -> Iterator[Outcome]:
    """W4A8: x = 16·hi + lo + 8 split wrongly."""
    if not call.is_w4a8:
        return
    yield "by truncation instead of floor", call.run(maker=partial(ChangedW4a8, truncate=True))
    yield "high and low half exchanged", call.run(maker=partial(ChangedW4a8, exchange=True))
    yield "int8 read as uint8", call.run(maker=partial(ChangedW4a8, unsigned=True))


def x1_destroyed(call: Call) -> Iterator[Outcome]:
    """A2/A3: x1 of an earlier run, which holds its packed halves."""
    if not call.is_w4a8 or call.operands.problem.k % 2:
        return
    x1 = call.arrays["x1"]
    for what in ("this is the second run", "this is the third run"):
        x1 = np.concatenate([destroyed(x1[: call.total]), x1[call.total :]])
        yield what, call.run(call.changed(x1=x1))


def destroyed(x1: NDArray[np.int8]) -> NDArray[np.int8]:
    """Rows of x1 after a run on A2/A3: packed high halves, then packed low halves."""
    wide = x1.astype(np.int16)
    halves = np.concatenate([(wide >> 4) & 15, ((wide & 15) - 8) & 15], axis=1)
    packed: NDArray[np.int8] = (halves[:, 0::2] | (halves[:, 1::2] << 4)).astype(np.uint8).view(np.int8)
    return packed


def half_partials(call: Call) -> Iterator[Outcome]:
    """W4A8: partial products beyond half precision's 65504."""
    if call.is_w4a8:
        yield "beyond 65504 to infinity", call.run(maker=partial(ChangedW4a8, partials="round"))
        yield "beyond 65504 to 65504", call.run(maker=partial(ChangedW4a8, partials="saturate"))


def narrow_products(call: Call) -> Iterator[Outcome]:
    """Products of each row rounded to half precision before bias and logit."""
    for name, narrow in NARROW.items():
        if call.is_w4a8:
            golden = call.run(maker=partial(ChangedW4a8, whole=narrow))
            yield name, replace(golden, rounding=np.zeros_like(golden.rounding))
        else:
            yield name, call.run(maker=partial(RoundedMx, narrow=narrow))


def narrow_out(call: Call) -> Iterator[Outcome]:
    """The result rounded to half precision."""
    for name, narrow in NARROW.items():
        with np.errstate(over="ignore"):
            yield name, replace(call.clean, out=call.clean.out.astype(narrow).astype(np.float64))


def constant_factor(call: Call) -> Iterator[Outcome]:
    """The result is the right one times a constant."""
    with np.errstate(all="ignore"):
        ratio = call.out.astype(np.float64) / call.clean.out
    ratio = ratio[np.isfinite(ratio) & (ratio != 0)]
    factor = float(np.median(ratio)) if ratio.size else 1.0
    for constant in (float(f"{factor:.2g}"), factor):
        if constant != 1.0:
            yield f"times {constant:.6g}", scaled(call.clean, constant)
