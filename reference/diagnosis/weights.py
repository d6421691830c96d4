"""Mistakes in the weights: packing, expert, layout, number format, length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from reference.diagnosis.addends import compensation, other_experts
from reference.diagnosis.call import Call, Outcome, change, reduce_columns
from reference.diagnosis.scales import has_mx_rows
from reference.formats import number_format
from reference.operands import Array


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
