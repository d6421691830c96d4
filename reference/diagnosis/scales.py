"""Mistakes in the scales of the matmul: slots, sides, layout, decoding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reference.diagnosis.addends import other_experts
from reference.diagnosis.call import Call, Outcome
from reference.diagnosis.makers import ChangedW4a8, LinearScales
from reference.operands import Array


def has_mx_rows(call: Call) -> bool:
    """Whether the call is on the MX path and has rows to process."""
    return not call.is_w4a8 and call.total > 0


def scales_of_other_expert(call: Call) -> Iterator[Outcome]:
    """Scales of the next expert, the one before, or expert 0."""
    if call.operands.problem.e > 1:
        for what, wrong in other_experts(call.arrays["scale"]):
            yield what, call.run(call.changed(scale=wrong))


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
