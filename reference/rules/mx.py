"""Rules of Ascend 950 in the vendor's order: full MX, and FP8 per token, which shares the checker."""

from __future__ import annotations

from functools import partial

from reference.rules import mx_checks as checks
from reference.rules.build import dtype_rule, format_rule, rank_rule, row, shape_rule
from reference.rules.call import Call
from reference.rules.model import MX, ON_950, PERTOKEN, Findings, Rule, describe, one
from reference.rules.shared import common, hint_experts, hint_rows
from reference.status import INNER_NULLPTR, NULLPTR

BOTH = (*MX, *PERTOKEN)
CHECK = "950 checker"
TILING = "tiling (950)"
INTEGER = "pass int64: bytes of another integer type are never reinterpreted"
LOGIT = "one float32 factor per row of x1"
SHARED = "shared_input is bfloat16 only; a header comment names float16 too"
OUT = "V3 writes float32 only; bfloat16 rules in the checker belong to attribute dtype 2, which V3 refuses"
INPUTS = ("x1", "pertoken_scale", "scale", "group_list", "logit", "row_index", "bias", "shared_input")


def check_scale_format(call: Call) -> Findings:
    """Tested in the preparation, before an empty call returns: an E8M0 scale beside an MX x1 is not NZ."""
    scale, x1 = call.scale, call.x1
    if scale is None or scale.format != "FRACTAL_NZ" or scale.dtype != "float8_e8m0fnu":
        return None
    if x1 is None or x1.dtype not in (*checks.FP8, checks.FP4):
        return None
    return one("scale", "ND", describe(scale), "only x2 may be in the NZ layout")


def rows(call: Call) -> tuple[int, ...]:
    return (call.m,)  # type: ignore[return-value]


def bias(call: Call) -> tuple[int, ...]:
    return (call.e, call.n)  # type: ignore[return-value]


def _pertoken_scale(call: Call) -> tuple[int, ...]:
    return (call.e, 1, call.n)  # type: ignore[return-value]


_row = partial(row, source=CHECK)
_dtype = partial(dtype_rule, source=CHECK)
_rank = partial(rank_rule, source=CHECK)
_shape = partial(shape_rule, source=CHECK)
PAIRS = "two factors per 64 values of k, one power of two per 32"
_E8M0 = ("float8_e8m0fnu",)

PREPARE: tuple[Rule, ...] = (
    row(
        "input-format",
        "an MX scale is not FRACTAL_NZ",
        "format",
        check_scale_format,
        "op_api scale preparation",
        ON_950,
        60,
        stage="prepare",
    ),
)

_MODE_ROWS = (
    _row(
        "scale-dtype",
        "scale is float8_e8m0fnu",
        "dtype",
        checks.check_quant_mode,
        paths=BOTH,
        importance=30,
        source="950 checker, quantisation mode",
    ),
    _row(
        "offset-null",
        "offset is null on Ascend 950",
        "",
        checks.check_offset_null,
        paths=BOTH,
        importance=12,
        status=NULLPTR,
        source="950 checker, null test (its 161002 becomes 161001); documentation page, offsetOptional",
    ),
)

_DTYPE_ROWS = (
    _row("scale-dtype", "scale is float8_e8m0fnu", "dtype", checks.check_scale_mx, paths=MX, importance=30),
    _dtype("row_index", ("int64",), BOTH, hint=INTEGER),
    _dtype("pertoken_scale", _E8M0, MX, hint=checks.hint_scale_dtype),
    _dtype("pertoken_scale", ("float32",), PERTOKEN, hint=LOGIT),
    _dtype("bias", ("bfloat16",), BOTH, hint="the model's bias, added before the product with logit"),
    _dtype("group_list", ("int64",), BOTH, hint=INTEGER),
    _dtype("shared_input", ("bfloat16",), BOTH, hint=SHARED),
    _dtype("logit", ("float32",), BOTH, hint=LOGIT),
    _dtype("out", ("float32",), BOTH, hint=OUT),
    _row(
        "mixed-elements",
        "x1 and x2 are both FP8 or both FP4",
        "dtype",
        checks.check_mixed_elements,
        paths=MX,
        importance=2,
    ),
    _row(
        "nz-dtype",
        "an FP8 weight in FRACTAL_NZ is E4M3, as x1",
        "dtype",
        checks.check_nz_dtype,
        paths=MX,
        importance=31,
    ),
)

_RANK_ROWS = (
    _rank("x1", "(m, k)", BOTH),
    _rank("x2", "(e, k, n)", BOTH, hint="weights of all experts in one tensor"),
    _rank("scale", "(e, k/64, n, 2)", MX, hint=PAIRS),
    _rank("scale", "(e, 1, n)", PERTOKEN),
    _rank("group_list", "(e,)", BOTH),
    _rank("logit", "(m,)", BOTH),
    _rank("row_index", "(m,)", BOTH),
    _rank("out", "(batch, n)", BOTH),
    _rank(
        "pertoken_scale", "(m, k/64, 2)", MX, hint="two factors per 64 values of k, one power of two per 32"
    ),
    _rank("pertoken_scale", "(m,)", PERTOKEN),
    _rank("bias", "(e, n)", BOTH),
    _rank("shared_input", "(batch/dp, n)", BOTH),
)

_SHAPE_ROWS = (
    common("group-list-type", BOTH, CHECK),
    common("shared-offset-sign", BOTH, CHECK),
    common("shared-offset-range", BOTH, CHECK),
    _row(
        "x1-transposed",
        "x1 is not a transposed view",
        "strides",
        checks.check_x1_turned,
        paths=BOTH,
        importance=42,
    ),
    common("k-match", BOTH, CHECK),
    common("group-list-length", BOTH, CHECK),
    _row(
        "expert-limit",
        "x2 holds at most 1024 experts",
        "shape",
        checks.check_experts,
        paths=BOTH,
        importance=48,
        source=f"{CHECK}; documentation page, x2",
    ),
    _row(
        "k-positive",
        "k is not 0",
        "shape",
        checks.check_k_positive,
        paths=BOTH,
        importance=44,
        source=f"{CHECK}; documentation page: of empty tensors only m = 0 and n = 0",
    ),
    _row(
        "scale-shape",
        "scale is (e, k/64, n, 2), beside transposed weights (e, n, k/64, 2)",
        "shape",
        checks.check_scale_shape,
        paths=MX,
        importance=50,
        source=f"{CHECK}; an older documentation page shows the transposed layout only",
    ),
    _shape("scale", "(e, 1, n)", _pertoken_scale, ("e", "n"), PERTOKEN),
    _shape("logit", "(m,)", rows, ("m",), BOTH, hint=hint_rows),
    _shape("row_index", "(m,)", rows, ("m",), BOTH, hint=hint_rows),
    common("out-columns", BOTH, CHECK),
    _shape("pertoken_scale", "(m, k/64, 2)", checks.pertoken_shape, ("m", "k"), MX, hint=PAIRS),
    _shape("pertoken_scale", "(m,)", rows, ("m",), PERTOKEN, hint=hint_rows),
    _shape("bias", "(e, n)", bias, ("e", "n"), BOTH, hint=hint_experts),
    common("shared-rows", BOTH, CHECK),
    common("shared-range", BOTH, CHECK),
    common("shared-columns", BOTH, CHECK),
    _row("fp4-k", "MXFP4: k is even and not 2", "shape", checks.check_fp4_k, paths=MX, importance=48),
    _row(
        "fp4-n",
        "MXFP4: n is even where x2 is not transposed",
        "shape",
        checks.check_fp4_n,
        paths=MX,
        importance=48,
    ),
)

_FORMAT_ROWS = (
    format_rule(INPUTS, BOTH, CHECK),
    _row(
        "out-format", "out is in a base format", "format", checks.check_out_private, paths=BOTH, importance=60
    ),
)

#: After the argument checks: what the caller sees of a tiling failure is 561103.
_TILING_ROWS = tuple(
    row(name, title, topic, check, TILING, BOTH, 65, stage="tiling", status=INNER_NULLPTR)
    for name, title, topic, check in (
        ("out-rows", "out has at most m rows", "shape", checks.check_out_rows),
        ("x2-empty", "x2 holds at least one expert", "shape", checks.check_experts_exist),
        ("nz-extents", "FRACTAL_NZ weights have n and k above 1", "shape", checks.check_nz_extents),
        (
            "nz-storage",
            "FRACTAL_NZ storage is 5 axes that end in 16 and 32 (FP4: 64)",
            "storage",
            checks.check_nz_blocks,
        ),
    )
)

RULES: tuple[Rule, ...] = (*_MODE_ROWS, *_DTYPE_ROWS, *_RANK_ROWS, *_SHAPE_ROWS, *_FORMAT_ROWS, *_TILING_ROWS)
