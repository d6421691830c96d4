"""Mistakes in how activations are split and how much precision is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reference.diagnosis.call import Call, Outcome
from reference.diagnosis.makers import NARROW, ChangedW4a8, RoundedMx
from reference.diagnosis.routing import scaled


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
