"""Hazards that descriptors show: phase 1 accepts the call, and the result is not what was asked."""

from __future__ import annotations

from functools import partial

from reference.acl import PRIVATE_FORMATS
from reference.problem import INPUTS
from reference.rules.build import row
from reference.rules.call import Call
from reference.rules.model import (
    EVERYWHERE,
    MX,
    MXA8W4,
    PERTOKEN,
    W4A8,
    Finding,
    Findings,
    Rule,
    describe,
    describe_weight,
    one,
    show,
)

_SCRATCH = 192 * 1024


def check_path(call: Call) -> Findings:
    hint = "the page offers full MX only; the WeightNzV2 operator is made for FP8 with FP4 weights"
    return one("x2", "FP8 with FP8 or FP4 with FP4", describe_weight(call), hint)


def check_pertoken_path(call: Call) -> Findings:
    got = describe(call.scale) if call.scale is not None else "null"
    return one(
        "scale",
        "float8_e8m0fnu",
        got,
        "the documentation page offers MX scales only: a path this project refuses",
    )


def check_x2_contiguous(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None or x2.strides is None or call.nz or not call.packed or x2.is_contiguous:
        return None
    hint = "unpacking INT32 to INT4 drops the strides and the data is read as if compact: make x2 contiguous"
    return one("x2", "a contiguous int32 tensor", describe(x2), hint)


def check_x2_offset(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None or not call.packed or not x2.offset:
        return None
    hint = "once unpacked the offset counts INT4 values, 1/8 of what was meant: pass the address, offset 0"
    return one("x2", "offset 0", f"offset {x2.offset}", hint)


def check_x1_transposed(call: Call) -> Findings:
    x1 = call.x1
    if x1 is None or not call.x1_turned:
        return None
    hint = "phase 1 reads these strides as transposed, tiling takes m and k from storage: make x1 contiguous"
    if x1.is_contiguous:
        hint = "strides of an axis of length 1 make phase 1 read x1 as transposed: pass compact strides"
    return one("x1", "a view that is not transposed", describe(x1), hint)


def check_layouts_agree(call: Call) -> Findings:
    """Where ⌈k/64⌉ == n both layouts have one shape, and only strides and flag tell them apart."""
    if call.groups is None or call.groups != call.n or call.scale is None or len(call.scale.shape) != 4:
        return None
    flag, x2_turned, scale_turned = call.attributes.transpose_x2, call.x2_turned, call.scale_turned
    if scale_turned == x2_turned and not (flag and scale_turned):
        return None
    weight = "x2 is transposed" if call.x2_transposed else "x2 is not transposed"
    view = "the scale is a transposed view" if scale_turned else "the scale is contiguous"
    hint = f"{weight}, {view}; with k/64 = n = {call.n} the shape fits both and phase 1 cannot tell"
    return one("scale", "the layout of x2", describe(call.scale), hint)


def check_k_limit(call: Call) -> Findings:
    if call.k is None or call.k <= 18432:
        return None
    hint = "tiling fails and its caller goes on with an unset workspace: one int8 row must fit on chip"
    return one("x1", "k at most 18432", f"k = {call.k}", hint)


def check_wrap(call: Call) -> Findings:
    offset, shared = call.attributes.shared_input_offset, call.shared_input
    rows = shared.shape[0] if shared is not None and shared.shape else 0
    if offset + rows <= 2**63 - 1:
        return None
    hint = f"the check adds in 64 bits and {offset} + {rows} wraps to a negative number, so it passes"
    return one("shared_input_offset", "offset + rows within 64 bits", f"{offset} + {rows}", hint)


def check_scratch(call: Call) -> Findings:
    """The pre-pass keeps rows and the group list in one buffer and copies the list by a 16-bit byte count."""
    e, k = call.e, call.k
    if e is None or k is None or k > 18432:
        return None
    if e > 8191 and call.attributes.group_list_type == 1:
        return one(
            "x2",
            "at most 8191 experts with counts",
            f"e = {e}",
            "the kernel copies the list by a 16-bit byte count",
        )
    need = 9 * k + 12 * e + 1331
    if need <= _SCRATCH:
        return None
    return one(
        "x2",
        "9k + 12e + 1331 within 196608 bytes",
        f"{need} bytes",
        f"k = {k}, e = {e} overrun the pre-pass's buffer",
    )


def check_products(call: Call) -> Findings:
    """Offsets that the kernels hold in 32 bits: m*k on Atlas A2/A3, batch*n where out is zeroed."""
    findings = []
    if not call.on_950 and call.m is not None and call.k is not None and call.m * call.k >= 2**32:
        findings.append(
            Finding("x1", "m * k below 2^32", str(call.m * call.k), "row offsets are 32-bit: split the call")
        )
    zeroed = call.on_950 or call.shared_input is None
    if zeroed and call.batch is not None and call.n is not None and call.batch * call.n >= 2**32:
        product = str(call.batch * call.n)
        findings.append(
            Finding("out", "batch * n below 2^32", product, "element offsets are 32-bit: split the call")
        )
    return findings or None


def check_row_sum(call: Call) -> Findings:
    if call.offset is None or call.k is None or call.k % 256 == 0 or call.k % 64:
        return None
    hint = "the kernel does not wait for its row sums when the last block of k is partial: pad k with zeros"
    return one("offset", "k a multiple of 256 with offset", f"k = {call.k}", hint)


def check_no_rows(call: Call) -> Findings:
    if call.batch != 0 or not call.m or (call.routing is not None and call.routing.total == 0):
        return None
    return one(
        "out", "at least one row", show((0, call.n or 0)), f"{call.m} rows of x1 have no row to be added to"
    )


def check_formats_overwritten(call: Call) -> Findings:
    findings = None
    for name in INPUTS:
        spec = getattr(call, name)
        if spec is None or spec.format == "ND" or spec.format not in PRIVATE_FORMATS:
            continue
        if spec.format in ("FRACTAL_NZ", "FRACTAL_NZ_C0_32"):
            continue
        hint = "phase 1 overwrites this format with ND and the bytes are read row by row"
        findings = [*(findings or ()), Finding(name, "ND", describe(spec), hint)]
    return findings


def check_storage_bounds(call: Call) -> Findings:
    findings = None
    for name, spec in call.problem.arguments.items():
        if (
            spec is None
            or (spec.storage_shape is None and not spec.offset)
            or spec.size == 0
            or "FRACTAL_NZ" in spec.format
        ):
            continue
        if spec.storage_shape is None:
            continue
        held = 1
        for length in spec.storage_shape:
            held *= length
        steps = (
            max(0, (length - 1) * stride)
            for length, stride in zip(spec.shape, spec.element_strides, strict=True)
        )
        last = spec.offset + sum(steps)
        if last < held:
            continue
        hint = "the view reaches beyond the storage that was described: memory of others is read or written"
        findings = [*(findings or ()), Finding(name, f"elements within {held}", f"element {last}", hint)]
    return findings


def check_steps(call: Call) -> Findings:
    """Inputs that step backwards; out has a rule of its own."""
    findings = None
    for name in INPUTS:
        spec = getattr(call, name)
        if spec is None or spec.strides is None or spec.size == 0 or spec.runs_forwards:
            continue
        hint = "memory before the first element is read: pass a contiguous tensor"
        findings = [*(findings or ()), Finding(name, "strides of 0 or more", describe(spec), hint)]
    return findings


def check_out_overlap(call: Call) -> Findings:
    out = call.out
    if out is None or out.strides is None or out.size == 0:
        return None
    if not out.runs_forwards:
        hint = "memory before the first element is written: pass a contiguous out"
        return one("out", "strides of 0 or more", describe(out), hint)
    if out.overlaps:
        hint = "elements share memory, and which of them stays is open: pass a contiguous out"
        return one("out", "elements that do not overlap", describe(out), hint)
    return None


_hazard = partial(row, level="hazard", status=0, stage="beyond")
_PREPASS = "kernel (A2/A3 pre-pass)"

RULES: tuple[Rule, ...] = (
    _hazard(
        "mxa8w4-path",
        "FP8 with FP4 weights is not offered by V3",
        "",
        check_path,
        "documentation page, Ascend 950: full MX only; the 950 MxA8W4 checker takes it",
        MXA8W4,
        75,
    ),
    _hazard(
        "fp8-pertoken-path",
        "FP8 per token is not offered by V3",
        "",
        check_pertoken_path,
        "documentation page, Ascend 950: full MX only; the 950 checker takes it",
        PERTOKEN,
        75,
    ),
    _hazard(
        "x2-contiguous",
        "INT32 weights are contiguous",
        "strides",
        check_x2_contiguous,
        "op_api weight unpacking",
        W4A8,
        76,
    ),
    _hazard(
        "x2-offset",
        "INT32 weights have offset 0",
        "offset",
        check_x2_offset,
        "op_api weight unpacking",
        W4A8,
        76,
    ),
    _hazard(
        "x1-transposed",
        "x1 is not a transposed view",
        "strides",
        check_x1_transposed,
        "op_api x1 preparation, tiling (A2/A3)",
        W4A8,
        76,
    ),
    _hazard(
        "scale-layout",
        "scale and x2 are transposed alike",
        "layout",
        check_layouts_agree,
        "documentation page, scaleOptional; the comparison in op_api has no effect",
        MX,
        76,
    ),
    _hazard(
        "k-limit", "k is at most 18432 on Atlas A2/A3", "shape", check_k_limit, "tiling (A2/A3)", W4A8, 77
    ),
    _hazard(
        "shared-range-wrap",
        "shared_input_offset + rows stays within 64 bits",
        "",
        check_wrap,
        "op_api CheckParams (A2/A3): a plain 64-bit addition",
        W4A8,
        77,
    ),
    _hazard(
        "expert-scratch", "k and e fit the pre-pass's buffer", "shape", check_scratch, _PREPASS, W4A8, 77
    ),
    _hazard(
        "offsets-32-bit",
        "m*k and batch*n stay below 2^32",
        "size",
        check_products,
        "kernels: 32-bit offsets",
        (*W4A8, *MX),
        77,
    ),
    _hazard(
        "offset-row-sum", "with offset, k is a multiple of 256", "shape", check_row_sum, _PREPASS, W4A8, 78
    ),
    _hazard(
        "out-empty",
        "out has a row where x1 has one",
        "shape",
        check_no_rows,
        "kernels: any row_index is out of range; the documentation page allows 0 rows",
        EVERYWHERE,
        77,
    ),
    _hazard(
        "format-overwritten",
        "inputs carry base formats",
        "format",
        check_formats_overwritten,
        "op_api format preparation",
        EVERYWHERE,
        78,
    ),
    _hazard(
        "view-bounds",
        "views stay within their storage",
        "storage",
        check_storage_bounds,
        "aclCreateTensor checks no bounds",
        EVERYWHERE,
        77,
    ),
    _hazard(
        "out-overlap",
        "elements of out lie forwards in memory and do not overlap",
        "strides",
        check_out_overlap,
        "aclCreateTensor checks no strides",
        EVERYWHERE,
        77,
    ),
    _hazard(
        "negative-strides",
        "inputs lie forwards in memory",
        "strides",
        check_steps,
        "aclCreateTensor checks no strides",
        EVERYWHERE,
        77,
    ),
)
