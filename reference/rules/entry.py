"""Rules of the entry of phase 1: nulls, attributes, and the dtypes that choose the path."""

from __future__ import annotations

from reference.formats import MX_ELEMENTS
from reference.problem import TensorSpec
from reference.rules.build import axes, dtype_rule
from reference.rules.call import Call
from reference.rules.model import (
    EVERYWHERE,
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
from reference.status import INVALID, NULLPTR

_ALWAYS = ("x1", "x2", "scale", "group_list", "pertoken_scale", "logit", "row_index")
_PAGE_OPTIONAL = "the documentation page calls it optional, the null test of op_api requires it"
_MISSING = {
    "bias": "required for W4A8: not the model's bias but 8*sum_k(w*scale), (e, n); make_bias() computes it",
    "scale": _PAGE_OPTIONAL,
    "pertoken_scale": _PAGE_OPTIONAL,
    "logit": f"{_PAGE_OPTIONAL}; one routing weight per row of x1, in expert-sorted order",
    "row_index": f"{_PAGE_OPTIONAL}; the out row of each row of x1",
    "group_list": "rows of each expert, int64, one entry per expert of x2",
    "x1": "activations (m, k)",
    "x2": "weights of all experts",
}


def check_out(call: Call) -> Findings:
    if call.out is not None:
        return None
    return one("out", "a tensor (batch, n) float32", "null", "phase 1 returns this code without any message")


def check_required(call: Call) -> Findings:
    names = _ALWAYS if call.on_950 else (*_ALWAYS, "bias")
    arguments = call.problem.arguments
    missing = [name for name in names if arguments[name] is None]
    return [Finding(name, "a tensor", "null", _MISSING[name]) for name in missing] if missing else None


def check_antiquant(call: Call) -> Findings:
    if call.antiquant_scale is None and call.antiquant_offset is None:
        return None
    return [
        Finding(
            name,
            "null",
            describe(spec),
            "V3 has no use for it; the vendor's code for this says null pointer although the tensor is there",
        )
        for name in ("antiquant_scale", "antiquant_offset")
        if (spec := getattr(call, name)) is not None
    ]


def check_dtype_attribute(call: Call) -> Findings:
    dtype = call.attributes.dtype
    return (
        None
        if dtype == 0
        else one("dtype", "0", str(dtype), "out is always float32: 0 is the only value V3 takes")
    )


def check_weight_rank(call: Call) -> Findings:
    x2 = call.x2
    if x2 is None or len(x2.shape) >= 2:
        return None
    return one(
        "x2",
        "3 axes (e, k, n)",
        f"{axes(len(x2.shape))} {show(x2.shape)}",
        "weights of all experts in one tensor",
    )


def check_transpose_x1(call: Call) -> Findings:
    if not call.attributes.transpose_x1:
        return None
    return one("transpose_x1", "false", "true", "no platform takes a transposed x1: pass x1 as (m, k)")


def check_transpose_x2(call: Call) -> Findings:
    if not call.attributes.transpose_x2 or call.on_950:
        return None
    return one(
        "transpose_x2",
        "false",
        "true",
        "only Ascend 950 takes transposed weights; on Atlas A2/A3 pass x2 as (e, k, n/8)",
    )


def hint_platform(call: Call, spec: TensorSpec) -> str:
    """Name the platform that the dtype belongs to."""
    title = call.problem.platform_row.title
    if call.on_950 and spec.dtype == "uint8":
        name = "x1" if spec is call.x1 else "x2"
        return (
            f'say what the bytes hold: dtypes={{"{name}": "float4_e2m1fn"}} for two FP4 values in a byte, '
            '"float8_e4m3fn" or "float8_e5m2" for FP8'
        )
    if call.on_950:
        return f"{title} computes MXFP8 and MXFP4 here; int8 with INT4 weights (W4A8) is for Atlas A2/A3"
    if spec.dtype in MX_ELEMENTS:
        return f"MXFP8 and MXFP4 need Ascend 950, this call is for {title}, which takes W4A8: int8 with INT4"
    return f"V3 on {title} takes int8 activations with INT4 weights (W4A8)"


def hint_packed_weight(call: Call, spec: TensorSpec) -> str:
    """How INT4 weights travel: eight values in an INT32 word along n."""
    if spec.dtype in MX_ELEMENTS:
        return hint_platform(call, spec)
    words = "pass INT4 weights packed, eight along n in one INT32 word, shape (e, k, n/8)"
    page = "; the documentation page names INT4, the check takes INT32 only" if spec.dtype == "int4" else ""
    if call.words:
        words = "the scale is 8 times as wide as x2: these are words of eight INT4 values, declare them int32"
    return f"{words}{page}; x2 is {describe_weight(call)}"


_ENTRY = "op_api GetWorkspaceSize entry"

RULES = (
    Rule(
        "out-required", "out is not null", "", "rejected", NULLPTR, _ENTRY, EVERYWHERE, "entry", check_out, 9
    ),
    Rule(
        "required",
        "required arguments are not null (bias on Atlas A2/A3 only)",
        "",
        "rejected",
        NULLPTR,
        "op_api null test; the documentation page calls scale, pertoken_scale, logit and row_index optional",
        EVERYWHERE,
        "entry",
        check_required,
        10,
    ),
    Rule(
        "antiquant-null",
        "antiquant_scale and antiquant_offset are null",
        "",
        "rejected",
        NULLPTR,
        "op_api null test; documentation page, antiquantScaleOptional: an invalid value, not a null pointer",
        EVERYWHERE,
        "entry",
        check_antiquant,
        11,
    ),
    Rule(
        "dtype-attribute",
        "attribute dtype is 0 (float32)",
        "",
        "rejected",
        INVALID,
        "op_api scene test; documentation page, dtype",
        EVERYWHERE,
        "entry",
        check_dtype_attribute,
        20,
    ),
    Rule(
        "x2-rank",
        "x2 has at least two axes",
        "rank",
        "rejected",
        INVALID,
        "op_api scene test",
        EVERYWHERE,
        "entry",
        check_weight_rank,
        40,
    ),
    Rule(
        "transpose-x1",
        "attribute transpose_x1 is false",
        "",
        "rejected",
        INVALID,
        "op_api scene test; documentation page, transposeX1",
        EVERYWHERE,
        "entry",
        check_transpose_x1,
        20,
    ),
    Rule(
        "transpose-x2",
        "attribute transpose_x2 is false on Atlas A2/A3",
        "",
        "rejected",
        INVALID,
        "op_api scene test; documentation page, x2 (an older table allows false only, on Ascend 950 too)",
        W4A8,
        "entry",
        check_transpose_x2,
        20,
    ),
    dtype_rule(
        "x2",
        ("int32",),
        W4A8,
        "op_api weight unpacking; the documentation page names INT4 as well",
        hint_packed_weight,
        stage="entry",
        importance=1,
        title="x2 is int32, eight INT4 values in a word",
    ),
    dtype_rule("x1", MX_ELEMENTS, ON_950, "op_api MX dtype test", hint_platform, stage="entry", importance=0),
    dtype_rule("x2", MX_ELEMENTS, ON_950, "op_api MX dtype test", hint_platform, stage="entry", importance=1),
)
