"""The checks behind the rules of Ascend 950: dtypes that go together, scale layouts, FP4 and NZ limits."""

from __future__ import annotations

from reference.acl import PRIVATE_FORMATS
from reference.problem import TensorSpec
from reference.rules.build import axes, experts_by_argument, join_hints
from reference.rules.call import Call
from reference.rules.model import Findings, Unchecked, describe, describe_weight, one, show, unknown

FP4 = "float4_e2m1fn"
FP8 = ("float8_e4m3fn", "float8_e5m2")


# --- dtypes


def check_quant_mode(call: Call) -> Findings:
    """The scale's dtype picks the mode first: what is no mode at all fails before the null test of offset."""
    scale = call.scale
    if scale is None or scale.dtype in ("float8_e8m0fnu", "float32", "bfloat16"):
        return None
    return one("scale", "float8_e8m0fnu", scale.dtype, hint_scale_dtype(call, scale))


def check_scale_mx(call: Call) -> Findings:
    scale = call.scale
    if scale is None or scale.dtype not in ("float32", "bfloat16"):
        return None
    return one("scale", "float8_e8m0fnu", scale.dtype, hint_scale_dtype(call, scale))


def hint_scale_dtype(call: Call, spec: TensorSpec) -> str:
    """What to do with bytes, powers of two, and the W4A8 carrier."""
    if spec.dtype == "uint8":
        return (
            "if these bytes are E8M0 exponents, say so: dtype float8_e8m0fnu; uint8 would be read as numbers"
        )
    if spec.dtype in ("float32", "bfloat16", "float16"):
        return "convert exact powers of two to E8M0 bytes (exponent + 127); other values do not fit"
    return "one power of two per 32 values of k, two to a pair: shape (e, k/64, n, 2)"


def check_offset_null(call: Call) -> Findings:
    if call.offset is None:
        return None
    hint = "MX weights are symmetric; the checker returns 161002 for it, its caller turns that into 161001"
    return one("offset", "null", describe(call.offset), hint)


def check_mixed_elements(call: Call) -> Findings:
    x1, x2 = call.x1, call.x2
    if x1 is None or x2 is None or (x1.dtype == FP4) == (x2.dtype == FP4):
        return None
    if x1.dtype not in (*FP8, FP4) or x2.dtype not in (*FP8, FP4):
        return Unchecked("x1 or x2 is not an MX dtype")
    hint = "both FP8 (E4M3 and E5M2 may be mixed) or both FP4"
    return one("x2", "FP4 with FP4, FP8 with FP8", f"x1 {x1.dtype}, x2 {x2.dtype}", hint)


def check_nz_dtype(call: Call) -> Findings:
    x1, x2 = call.x1, call.x2
    if not call.nz or x1 is None or x2 is None or (x1.dtype not in FP8 and x2.dtype not in FP8):
        return None
    if x1.dtype == x2.dtype == "float8_e4m3fn":
        return None
    hint = "an FP8 weight in the NZ layout is E4M3 on both sides: pass x2 as ND"
    return one("x2", "float8_e4m3fn for x1 and x2 with FRACTAL_NZ", f"x1 {x1.dtype}, x2 {x2.dtype}", hint)


# --- shapes


def check_x1_turned(call: Call) -> Findings:
    x1 = call.x1
    if not call.x1_turned or x1 is None:
        return None
    hint = "no platform takes a transposed x1: make it contiguous"
    if x1.is_contiguous:
        hint = "strides of an axis of length 1 make it look transposed: pass compact strides"
    return one("x1", "a view that is not transposed", describe(x1), hint)


def check_x2_turned(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None or call.x2_transposed:
        return None
    hint = "MxA8W4 takes transposed weights only: transpose_x2, or a transposed view"
    return one("x2", "transposed weights (e, n, k)", describe_weight(call), hint)


def check_experts(call: Call) -> Findings:
    if call.e is None:
        return unknown(call, "e")
    if call.e <= 1024:
        return None
    return one("x2", "at most 1024 experts", f"e = {call.e}", f"x2 is {describe_weight(call)}")


def check_k_positive(call: Call) -> Findings:
    if call.k is None or call.x1 is None:
        return unknown(call, "k")
    if call.k > 0:
        return None
    return one(
        "x1", "k above 0", f"k = 0 in {show(call.x1.shape)}", "axis 1 of x1 is empty; only m or n may be 0"
    )


def scale_shape(call: Call) -> tuple[int, ...]:
    """The scale that belongs to the weight's layout."""
    e, n, groups = call.e, call.n, call.groups
    return (e, n, groups, 2) if call.x2_transposed else (e, groups, n, 2)  # type: ignore[return-value]


def check_scale_shape(call: Call) -> Findings:
    scale = call.scale
    if scale is None:
        return None
    if len(scale.shape) != 4:
        return Unchecked("scale has a wrong rank")
    if call.e is None or call.n is None or call.groups is None:
        return unknown(call, "e", "n", "k")
    want = scale_shape(call)
    got = call.scale_shape
    if got == want:
        return None
    shown = f"{show(got)}, turned from the view {show(scale.shape)}" if call.scale_turned else show(got)
    return one("scale", show(want), shown, _hint_scale_layout(call, want, got))


def _hint_scale_layout(call: Call, want: tuple[int, ...], got: tuple[int, ...]) -> str:
    """Tell a swapped layout from a wrong extent."""
    if got == (want[0], want[2], want[1], 2):
        if call.x2_turned:
            trap = (
                " (strides of an axis of length 1)" if call.x2 is not None and call.x2.is_contiguous else ""
            )
            return f"x2 is a transposed view{trap}, so the scale must be one too"
        if call.x2_transposed:
            turned = (
                "its strides make phase 1 turn it once more"
                if call.scale_turned
                else "so the scale must be too"
            )
            return f"x2 is transposed, {turned}"
        return "x2 is not transposed, so the scale must not be either"
    hints = [f"two factors per 64 values of k; x2 is {describe_weight(call)}", experts_by_argument(call)]
    if len(got) == 4 and got[3] == 1:
        hints.insert(0, "the last axis holds a pair")
    return join_hints(*hints)


def pertoken_shape(call: Call) -> tuple[int, ...]:
    return (call.m, call.groups, 2)  # type: ignore[return-value]


# --- FP4, MxA8W4 alignment


def check_fp4_k(call: Call) -> Findings:
    x1, x2 = call.x1, call.x2
    if x1 is None or x2 is None or x1.dtype != FP4 or x2.dtype != FP4:
        return None
    if call.k is None:
        return unknown(call, "k")
    if call.k % 2 == 0 and call.k != 2:
        return None
    hint = f"two FP4 values share a byte and k counts values; x1 is {describe(x1)}"
    return one("x1", "k even and not 2", f"k = {call.k}", hint)


def check_fp4_n(call: Call) -> Findings:
    x1, x2 = call.x1, call.x2
    if x1 is None or x2 is None or x1.dtype != FP4 or x2.dtype != FP4 or call.x2_transposed:
        return None
    if call.n is None:
        return unknown(call, "n")
    if call.n % 2 == 0:
        return None
    hint = f"two FP4 values share a byte along n; transposed weights take any n; x2 is {describe(x2)}"
    return one("x2", "n even where x2 is not transposed", f"n = {call.n}", hint)


def check_k_32(call: Call) -> Findings:
    if call.k is None:
        return unknown(call, "k")
    return (
        None
        if call.k % 32 == 0
        else one("x1", "k a multiple of 32", f"k = {call.k}", "MxA8W4 takes whole blocks")
    )


def check_n_32(call: Call) -> Findings:
    if call.n is None:
        return unknown(call, "n")
    return (
        None
        if call.n % 32 == 0
        else one("x2", "n a multiple of 32", f"n = {call.n}", "MxA8W4 takes whole blocks")
    )


# --- formats, storage, tiling


def check_nz_only(call: Call) -> Findings:
    x2 = call.x2
    return (
        None if x2 is None or call.nz else one("x2", "FRACTAL_NZ", describe(x2), "this path has no ND kernel")
    )


def check_storage_five(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None:
        return None
    storage = x2.shape if x2.storage_shape is None else x2.storage_shape
    if len(storage) == 5:
        return None
    hint = f"FRACTAL_NZ is stored in blocks of 16 x 32; x2 is {describe(x2)}"
    return one("x2", "5 storage axes", f"{axes(len(storage))} {show(storage)}", hint)


def check_out_private(call: Call) -> Findings:
    out = call.out
    if out is None or out.format not in PRIVATE_FORMATS:
        return None
    return one("out", "ND", describe(out), "out takes base formats only")


def check_out_rows(call: Call) -> Findings:
    if call.batch is None or call.m is None:
        return unknown(call, "batch", "m")
    if call.batch <= call.m:
        return None
    hint = "tiling refuses it after the argument checks; Atlas A2/A3 returns 161002 for the same"
    return one("out", f"at most m = {call.m} rows", f"{call.batch} rows", hint)


def check_experts_exist(call: Call) -> Findings:
    if call.e is None:
        return unknown(call, "e")
    return (
        None
        if call.e
        else one("x2", "at least one expert", f"e = 0 in {describe_weight(call)}", "skip the call instead")
    )


def check_nz_extents(call: Call) -> Findings:
    if not call.nz:
        return None
    if call.n is None or call.k2 is None:
        return unknown(call, "n", "k2")
    if call.n != 1 and call.k2 != 1:
        return None
    return one("x2", "n and k above 1 for FRACTAL_NZ", f"k = {call.k2}, n = {call.n}", "pass x2 as ND")


def check_nz_blocks(call: Call) -> Findings:
    """FRACTAL_NZ on Ascend 950 is stored as five axes that end in 16 and 32 (FP4: 64)."""
    x2 = call.x2
    if x2 is None or not call.nz:
        return None
    if x2.dtype not in (*FP8, FP4):
        return Unchecked("x2 is not an MX dtype")
    storage = x2.shape if x2.storage_shape is None else x2.storage_shape
    last = 64 if x2.dtype == FP4 else 32
    if len(storage) == 5 and storage[-2:] == (16, last):
        return None
    hint = f"give storage_shape as the conversion to FRACTAL_NZ made it; x2 is {describe(x2)}"
    return one("x2", f"5 storage axes that end in 16, {last}", show(storage), hint)
