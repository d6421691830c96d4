"""The checks behind the rules of Atlas A2/A3: ranks, shapes, formats, tuning, shape inference."""

from __future__ import annotations

from reference.problem import TensorSpec
from reference.rules.build import axes, experts_by_argument, join_hints
from reference.rules.call import Call
from reference.rules.model import Findings, Unchecked, describe, describe_weight, one, show, unknown

OFFSET = "offset corrects asymmetric weights: antiquant offset times scale, per expert and column"
SHARED_FORM = (
    "shared_input is (batch/dp, n); an older documentation page shows (e), no implementation takes that"
)
INPUTS = (
    "x1",
    "scale",
    "bias",
    "pertoken_scale",
    "group_list",
    "shared_input",
    "logit",
    "row_index",
    "offset",
)


# --- ranks


def check_x2_rank(call: Call) -> Findings:
    """ND storage takes the rank of the view: a flat storage shape is made good."""
    x2 = call.x2
    if x2 is None or call.nz or not (len(x2.shape) == 2 or len(x2.shape) > 7):
        return None
    return one(
        "x2", "3 axes (e, k, n)", f"{axes(len(x2.shape))} {show(x2.shape)}", "one weight matrix per expert"
    )


def check_storage_rank(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None or not call.nz or len(x2.shape) < 2:
        return None
    storage = x2.shape if x2.storage_shape is None else x2.storage_shape
    if 5 <= len(storage) <= 9:
        return None
    expected = "5 storage axes (e, n/64, k/16, 16, 8) for FRACTAL_NZ"
    return one("x2", expected, f"{axes(len(storage))} {show(storage)}", f"x2 is {describe(x2)}")


def check_x1_rank(call: Call) -> Findings:
    x1 = call.x1
    if x1 is None or len(x1.shape) >= 2:
        return None
    return one("x1", "2 axes (m, k)", f"{axes(len(x1.shape))} {show(x1.shape)}", "one row per routed token")


def hint_pertoken_rank(call: Call, spec: TensorSpec) -> str:
    squeezed = tuple(length for length in spec.shape if length != 1)
    return (
        f"reshape {show(spec.shape)} to {show(squeezed)}"
        if len(squeezed) == 1
        else "one factor per row of x1"
    )


def hint_scale_rank(call: Call, spec: TensorSpec) -> str:
    return (
        "one factor per expert and column, float32 bits in the low half of int64; per-group scales do not fit"
    )


# --- shapes


def check_nz_storage(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None or not call.nz:
        return None
    storage = x2.storage_shape
    if storage is None or len(storage) < 5:
        return Unchecked("x2 has a wrong storage rank")
    if call.k is None:
        return unknown(call, "k")
    if storage[-3] * 16 == -(-call.k // 16) * 16:
        return None
    return one(
        "x2",
        f"storage axis -3 of {-(-call.k // 16)} = k {call.k} in blocks of 16",
        f"{storage[-3]} in {show(storage)}",
        f"FRACTAL_NZ of INT4 is stored as (e, n/64, k/16, 16, 8); x2 is {describe_weight(call)}",
    )


def check_k_alignment(call: Call) -> Findings:
    k = call.k2
    if k is None:
        return unknown(call, "k2")
    if k == 0 or (k % 64 == 0 and k > 128):
        return Unchecked("k is 0") if k == 0 else None
    return one(
        "x2", "k a multiple of 64 above 128", f"k = {k}", f"smallest is 192; x2 is {describe_weight(call)}"
    )


def check_n_alignment(call: Call) -> Findings:
    n = call.n
    if n is None:
        return unknown(call, "n")
    step = 64 if call.nz else 8
    if n == 0 or (n % step == 0 and n > 64):
        return Unchecked("n is 0") if n == 0 else None
    layout = "FRACTAL_NZ" if call.nz else "ND"
    fits_nd = f"; n = {n} is fine for ND" if call.nz and n % 8 == 0 and n > 64 else ""
    return one(
        "x2",
        f"n a multiple of {step} above 64 for {layout}",
        f"n = {n}",
        f"x2 is {describe_weight(call)}{fits_nd}",
    )


def check_out_rows(call: Call) -> Findings:
    if call.batch is None or call.m is None:
        return unknown(call, "batch", "m")
    if call.batch <= call.m:
        return None
    if call.m == 0:
        return Unchecked("m is 0")
    hint = "Atlas A2/A3 takes no more out rows than x1 has"
    return one("out", f"at most m = {call.m} rows", f"{call.batch} rows", hint)


def hint_scale_shape(call: Call, spec: TensorSpec) -> str:
    n = spec.shape[2]
    hints = []
    if n != call.n and call.packed and n * 8 == call.n:
        hints.append(f"x2 is {describe_weight(call)}; scale has n {n}: did you forget *8?")
    elif n != call.n:
        hints.append(f"x2 is {describe_weight(call)}")
    if spec.shape[1] != 1:
        hints.append(
            f"scale axis 1 is {spec.shape[1]}, this operator takes 1 (per channel): "
            "group-quantised weights need another operator or requantisation"
        )
    return join_hints(*hints, experts_by_argument(call))


def hint_offset_shape(call: Call, spec: TensorSpec) -> str:
    return join_hints(OFFSET, experts_by_argument(call))


def check_empty(call: Call) -> Findings:
    """No argument may hold an axis of length 0; bias, offset and out are left to their own rules."""
    names = ("x1", "x2", "scale", "group_list", "pertoken_scale", "shared_input", "logit", "row_index")
    empty = [(name, spec) for name in names if (spec := getattr(call, name)) is not None and 0 in spec.shape]
    if not empty:
        return None
    got = ", ".join(f"{name} {show(spec.shape)}" for name, spec in empty)
    got = f"{zeros}: {got}" if (zeros := call.zeros) else got
    return one(
        empty[0][0], "no axis of length 0", got, f"Atlas A2/A3 refuses empty tensors: {_way_out(call)}"
    )


def _way_out(call: Call) -> str:
    """What to do instead of passing an empty tensor."""
    if call.k == 0 or call.k2 == 0:
        return "k is the length of each sum and cannot be 0; check the axes of x1 (m, k) and x2 (e, k, n/8)"
    if call.zeros:
        return "skip the call on an idle rank"
    shared = call.shared_input
    if shared is not None and 0 in shared.shape:
        return "pass null for shared_input where there is nothing to share"
    return "pass one entry per expert, column or row, as in the other arguments"


# --- formats, tuning, inference


def check_weight_format(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None or x2.format != "FRACTAL_NZ_C0_32":
        return None
    return one("x2", "ND or FRACTAL_NZ", describe(x2), "the C0_32 layout is for Ascend 950")


def check_out_format(call: Call) -> Findings:
    out = call.out
    if out is None or out.format == "ND":
        return None
    return one("out", "ND", describe(out), "inputs may carry another base format, out may not")


def check_tuning(call: Call) -> Findings:
    tuning = call.attributes.tuning_config
    if not tuning:
        return None
    x1 = call.x1
    if x1 is None or len(x1.shape) < 2:
        return unknown(call, "m")
    # The bound is axis 0 of x1 after phase 1 turned a transposed view.
    bound = x1.shape[1] if call.x1_turned and len(x1.shape) == 2 else x1.shape[0]
    if 0 <= tuning[0] <= bound:
        return None
    return one(
        "tuning_config",
        f"element 0 within 0..m = {bound}",
        str(tuning[0]),
        "expected rows per expert, a hint for speed; null or 0 leaves it to the operator",
    )


def check_x1_inference(call: Call) -> Findings:
    x1 = call.x1
    if x1 is None or len(x1.shape) <= 2:
        return None
    return one(
        "x1", "2 axes (m, k)", f"{axes(len(x1.shape))} {show(x1.shape)}", "the argument checks only log it"
    )


def check_x2_inference(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None or len(x2.shape) == 3 or not (call.nz or 3 <= len(x2.shape) <= 7) or len(x2.shape) < 2:
        return None
    return one(
        "x2", "3 axes (e, k, n)", f"{axes(len(x2.shape))} {show(x2.shape)}", "the argument checks only log it"
    )
