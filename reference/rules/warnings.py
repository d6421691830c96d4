"""Warnings that descriptors show: legal calls that are often a mistake, or that an older release refuses."""

from __future__ import annotations

from functools import partial

from reference.acl import PRIVATE_FORMATS
from reference.rules.build import row
from reference.rules.call import Call
from reference.rules.model import (
    EVERYWHERE,
    MX,
    ON_950,
    W4A8,
    Finding,
    Findings,
    Rule,
    describe,
    describe_weight,
    one,
    show,
)

#: From here on a number rounds to infinity in float32: its largest value and half a step.
_FLOAT_LIMIT = (2 - 2.0**-24) * 2.0**127
_OLD = "CANN 8.3.RC1 to 8.5.0.alpha001"


def check_empty_call(call: Call) -> Findings:
    if not call.empty:
        return None
    argument = "x1" if call.empty == "m" else "x2"
    spec = call.x1 if call.empty == "m" else call.x2
    got = f"{call.empty} = 0 in {show(spec.shape)}" if spec is not None else ""
    hint = "phase 1 succeeds without a kernel: out stays as it was, without shared_input; fill it yourself"
    return one(argument, f"{call.empty} above 0", got, hint)


def check_square_scale(call: Call) -> Findings:
    if call.groups in (None, 1) or call.groups != call.n or call.scale is None or len(call.scale.shape) != 4:
        return None
    if call.x2_turned or call.scale_turned:
        return None
    layout = "(e, n, k/64, 2)" if call.x2_transposed else "(e, k/64, n, 2)"
    hint = f"k/64 = n = {call.n}: both layouts have this shape; transpose_x2 says it is read as {layout}"
    return one("scale", "a shape that tells its layout", show(call.scale.shape), hint)


def check_tuning_length(call: Call) -> Findings:
    tuning = call.attributes.tuning_config
    if tuning is None or len(tuning) < 2:
        return None
    hint = "a second element selects another kernel for k <= 2048, the least proven path"
    return one("tuning_config", "at most one element", str(list(tuning)), hint)


def check_trap_strides(call: Call) -> Findings:
    """Contiguous tensors whose strides on axes of length 1 read as a transposed view."""
    findings = []
    x2 = call.x2
    if call.x2_turned == call.scale_turned:  # both are turned: whatever the strides, they agree
        return None
    if x2 is not None and call.x2_turned and x2.is_contiguous:
        findings.append(_trap("x2", describe(x2)))
    scale = call.scale
    if scale is not None and call.scale_turned and scale.is_contiguous:
        findings.append(_trap("scale", describe(scale)))
    return findings or None


def _trap(name: str, text: str) -> Finding:
    hint = "phase 1 takes this for a transposed view, axes of length 1 included: pass compact strides"
    return Finding(name, "compact strides", text, hint)


def check_shared_null(call: Call) -> Findings:
    if call.shared_input is not None:
        return None
    hint = f"optional now; {_OLD} refuse null with 161001: pass zeros (1, n) bfloat16 with weight 0 there"
    return one("shared_input", "a tensor on old releases", "null", hint)


def check_shared_weight(call: Call) -> Findings:
    """NaN, infinity, and numbers that round to infinity as the float of the prototype."""
    weight = call.attributes.shared_input_weight
    if abs(weight) < _FLOAT_LIMIT:
        return None
    hint = "the operator takes a float: rows with shared_input become inf or NaN"
    if call.shared_input is None:
        hint = "the operator takes a float; without shared_input it has no effect"
    return one("shared_input_weight", "a finite float32", repr(weight), hint)


def check_nd_storage(call: Call) -> Findings:
    """x2 in a plain format whose storage is in blocks (..., 16, c), as FRACTAL_NZ has them."""
    x2 = call.x2
    if x2 is None or call.nz or x2.storage_shape is None or x2.format in PRIVATE_FORMATS:
        return None
    storage = x2.storage_shape
    if len(storage) != len(x2.shape) + 2 or storage[-2] != 16:
        return None
    hint = (
        f"storage in blocks (..., 16, {storage[-1]}) looks like FRACTAL_NZ, and {x2.format} is read row "
        "by row: say FRACTAL_NZ if the data lies so, else leave storage_shape out"
    )
    return one("x2", f"{x2.format} storage", describe_weight(call), hint)


def check_totals(call: Call) -> Findings:
    if call.attributes.group_list_type != 0:
        return None
    hint = f"honoured now; {_OLD} refuse it with 161002: pass counts (type 1) there"
    return one("group_list_type", "1 on old releases", "0 (running totals)", hint)


_warning = partial(row, level="warning", status=0, stage="beyond")

RULES: tuple[Rule, ...] = (
    _warning(
        "empty-call",
        "m and n are not 0",
        "shape",
        check_empty_call,
        "op_api early return (950); documentation page: only m = 0 and n = 0 are supported",
        ON_950,
        80,
    ),
    _warning(
        "square-scale",
        "the scale's shape tells its layout",
        "layout",
        check_square_scale,
        "950 checker",
        MX,
        80,
    ),
    _warning(
        "tuning-length",
        "tuning_config has at most one element",
        "",
        check_tuning_length,
        "tiling (A2/A3); documentation page: further elements are reserved",
        W4A8,
        81,
    ),
    _warning(
        "trap-strides",
        "strides of axes of length 1 are compact",
        "strides",
        check_trap_strides,
        "op_api transpose test: raw strides",
        ON_950,
        81,
    ),
    _warning(
        "nd-storage",
        "x2 in a plain format has no FRACTAL_NZ storage",
        "storage",
        check_nd_storage,
        "a guess from the description; op_api reads the format alone",
        EVERYWHERE,
        80,
    ),
    _warning(
        "shared-weight-finite",
        "shared_input_weight is a finite float32",
        "",
        check_shared_weight,
        "prototype: float sharedInputWeight",
        EVERYWHERE,
        81,
    ),
    _warning(
        "release-shared-input",
        "old releases require shared_input",
        "",
        check_shared_null,
        f"op_api of {_OLD}",
        W4A8,
        85,
    ),
    _warning(
        "release-group-list-type",
        "old releases take counts only",
        "",
        check_totals,
        f"op_api of {_OLD}",
        W4A8,
        85,
    ),
)
