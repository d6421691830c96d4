"""Simpler values for a failing call: ones for scales and weights, small numbers, no optional inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from gmmfr.shrinking.cuts import rebuild, with_compensation
from reference.bundle import unpack_nibbles
from reference.formats import decode_table
from reference.int4 import pack_int4, unpack_int4
from reference.operands import Array, Operands, pack_nibbles

#: Bits of 1.0 as the INT64 scale holds them, and the E8M0 code of 1.0.
_ONE_BITS, _ONE_CODE = 0x3F800000, 127


@dataclass(frozen=True)
class Simplification:
    """A change of values, in words, and how it is made; None where there is nothing to change."""

    words: str
    apply: Callable[[Operands], Operands | None]


def simplifications(operands: Operands, recompute_bias: bool) -> Iterator[Simplification]:
    """What to try, in order."""
    w4a8 = operands.problem.platform_row.family == "a2a3"
    yield Simplification("without tuning_config", _without_tuning)
    yield Simplification("counts instead of totals", _as_counts)
    for name in ("shared_input", "offset", *(() if w4a8 else ("bias",))):
        yield Simplification(f"without {name}", _without(name))
    yield Simplification("shared_input_weight 1", _plain_shared_weight)
    yield Simplification("logit 1", _ones("logit"))
    if not w4a8:
        yield Simplification("pertoken_scale 1", _one_codes("pertoken_scale"))
        yield Simplification("scale 1", _one_codes("scale"))
        yield Simplification("x1 of -1, 0 and 1", _mx_signs("x1"))
        yield Simplification("x2 of -1, 0 and 1", _mx_signs("x2"))
        return
    yield Simplification("pertoken_scale 1", _ones("pertoken_scale"))
    yield Simplification("scale 1", _compensated(_one_scale, recompute_bias))
    yield Simplification("x1 of -1, 0 and 1", _int8_signs)
    yield Simplification("x2 of -1, 0 and 1", _compensated(_int4_signs, recompute_bias))


def _changed(operands: Operands, name: str, array: Array) -> Operands | None:
    old = operands.arrays[name]
    if np.ascontiguousarray(old).tobytes() == np.ascontiguousarray(array).tobytes():
        return None
    return rebuild(operands, {**operands.arrays, name: array})


def _without(name: str) -> Callable[[Operands], Operands | None]:
    def apply(operands: Operands) -> Operands | None:
        if operands[name] is None:
            return None
        return rebuild(operands, {key: array for key, array in operands.arrays.items() if key != name})

    return apply


def _without_tuning(operands: Operands) -> Operands | None:
    if operands.attributes.tuning_config is None:
        return None
    return rebuild(operands, dict(operands.arrays), tuning_config=None)


def _as_counts(operands: Operands) -> Operands | None:
    from gmmfr.shrinking.cuts import counts_of

    if operands.attributes.group_list_type == 1:
        return None
    return rebuild(operands, {**operands.arrays, "group_list": counts_of(operands)}, group_list_type=1)


def _plain_shared_weight(operands: Operands) -> Operands | None:
    if operands.attributes.shared_input_weight == 1.0:
        return None
    return rebuild(operands, dict(operands.arrays), shared_input_weight=1.0)


def _ones(name: str) -> Callable[[Operands], Operands | None]:
    return lambda operands: _changed(operands, name, np.ones_like(operands.arrays[name]))


def _one_codes(name: str) -> Callable[[Operands], Operands | None]:
    def apply(operands: Operands) -> Operands | None:
        codes = np.full_like(operands.arrays[name].view(np.uint8), _ONE_CODE)
        return _changed(operands, name, codes.view(ml_dtypes.float8_e8m0fnu))

    return apply


def _one_scale(operands: Operands) -> Operands | None:
    return _changed(operands, "scale", np.full_like(operands.arrays["scale"], _ONE_BITS))


def _int8_signs(operands: Operands) -> Operands | None:
    return _changed(operands, "x1", np.sign(operands.arrays["x1"]))


def _int4_signs(operands: Operands) -> Operands | None:
    return _changed(operands, "x2", pack_int4(np.sign(unpack_int4(operands.arrays["x2"])), "int32"))


def _compensated(
    change: Callable[[Operands], Operands | None], recompute: bool
) -> Callable[[Operands], Operands | None]:
    def apply(operands: Operands) -> Operands | None:
        changed = change(operands)
        return with_compensation(changed) if changed is not None and recompute else changed

    return apply


def _mx_signs(name: str) -> Callable[[Operands], Operands | None]:
    def apply(operands: Operands) -> Operands | None:
        array, dtype = operands.arrays[name], operands.problem.spec(name).dtype
        table = decode_table(dtype)
        codes = [int(np.flatnonzero(table == number)[0]) for number in (-1.0, 0.0, 1.0)]
        simpler = np.array(codes, np.uint8)[np.sign(np.nan_to_num(table)).astype(np.int64) + 1]
        if dtype != "float4_e2m1fn":
            return _changed(operands, name, simpler[array.view(np.uint8)].view(array.dtype))
        return _changed(operands, name, pack_nibbles(name, simpler[unpack_nibbles(array)]))

    return apply
