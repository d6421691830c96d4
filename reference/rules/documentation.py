"""Undocumented: what the checks of phase 1 take and the documentation page does not offer."""

from __future__ import annotations

from functools import partial

from reference.rules.build import row
from reference.rules.call import Call
from reference.rules.model import EVERYWHERE, MX, W4A8, Finding, Findings, Rule, describe, one, show

ACCEPTED = "accepted by op_api CheckParams"


def check_k(call: Call) -> Findings:
    if call.k is None or call.k == 2048 or call.k % 64 or call.k <= 128:
        return None
    hint = f"outside the documented value, {ACCEPTED} (a multiple of 64 above 128)"
    if call.k % 256:
        hint += "; no vendor test covers a k that is not a multiple of 256"
    return one("x1", "k = 2048", f"k = {call.k}", hint)


def check_n(call: Call) -> Findings:
    if call.n is None or call.n == 7168 or call.n <= 64 or call.n % (64 if call.nz else 8):
        return None
    hint = f"outside the documented value, {ACCEPTED} (a multiple of 8, NZ of 64, above 64)"
    return one("x2", "n = 7168", f"n = {call.n}", hint)


def check_m(call: Call) -> Findings:
    if call.m is None or call.m <= 131072:
        return None
    return one("x1", "m within 1..131072", f"m = {call.m}", f"outside the documented range, {ACCEPTED}")


def check_e(call: Call) -> Findings:
    if call.e is None or call.e <= 256:
        return None
    return one("x2", "e within 1..256", f"e = {call.e}", f"outside the documented range, {ACCEPTED}")


def check_shared_share(call: Call) -> Findings:
    shared, batch, e = call.shared_input, call.batch, call.e
    if (
        shared is None
        or len(shared.shape) != 2
        or batch is None
        or not e
        or not batch < shared.shape[0] * e <= batch * e
    ):
        return None
    hint = f"{ACCEPTED}, which asks for offset + rows <= batch only; the vendor's own tests do so too"
    return one("shared_input", f"at most batch/e = {batch}/{e} rows", f"{shared.shape[0]} rows", hint)


def check_weight_layout(call: Call) -> Findings:
    if not call.nz or call.x2 is None:
        return None
    hint = "the page offers ND, the checks take FRACTAL_NZ too; the WeightNz operators are made for it"
    return one("x2", "ND", describe(call.x2), hint)


def check_contiguity(call: Call) -> Findings:
    """Views that phase 1 copies; transposed weights and scales on Ascend 950 are a feature of their own."""
    findings = None
    for name, spec in call.problem.arguments.items():
        if spec is None or spec.strides is None or spec.is_contiguous:
            continue
        if (name == "x2" and (call.x2_turned or not call.on_950)) or (name == "scale" and call.scale_turned):
            continue
        if name == "x1" and call.x1_turned:
            continue
        cost = "written through a copy of out" if name == "out" else "copied to the workspace first"
        hint = f"the page does not support views, op_api takes them: {cost}"
        findings = [
            *(findings or ()),
            Finding(name, "a contiguous tensor", f"strides {show(spec.strides)}", hint),
        ]
    return findings


_page = partial(row, level="undocumented", status=0, stage="beyond")

RULES: tuple[Rule, ...] = (
    _page(
        "documented-k", "k is 2048", "shape", check_k, "documentation page, x1 and x2 (Atlas A2/A3)", W4A8, 70
    ),
    _page("documented-n", "n is 7168", "shape", check_n, "documentation page, x2 (Atlas A2/A3)", W4A8, 70),
    _page(
        "documented-m",
        "m is at most 131072",
        "shape",
        check_m,
        "documentation page, x1 (Atlas A2/A3)",
        W4A8,
        70,
    ),
    _page(
        "documented-e", "e is at most 256", "shape", check_e, "documentation page, x2 (Atlas A2/A3)", W4A8, 70
    ),
    _page(
        "documented-shared-rows",
        "shared_input has at most batch/e rows",
        "shape",
        check_shared_share,
        "documentation page, sharedInputOptional (Atlas A2/A3)",
        W4A8,
        70,
    ),
    _page(
        "documented-x2-format",
        "x2 is ND",
        "format",
        check_weight_layout,
        "documentation page, x2: data format ND",
        (*W4A8, *MX),
        70,
    ),
    _page(
        "contiguity",
        "arguments are contiguous",
        "strides",
        check_contiguity,
        "documentation page, non-contiguous column",
        EVERYWHERE,
        71,
    ),
)
