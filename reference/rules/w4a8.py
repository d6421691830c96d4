"""Rules of Atlas A2/A3 in the vendor's order: rank tests, CheckParams, then what shape inference refuses."""

from __future__ import annotations

from functools import partial

from reference.rules import w4a8_checks as checks
from reference.rules.build import dtype_rule, format_rule, rank_rule, row, shape_rule
from reference.rules.call import Call
from reference.rules.entry import hint_platform
from reference.rules.model import W4A8, Rule
from reference.rules.shared import common, hint_experts, hint_rows
from reference.status import INNER_NULLPTR

RANKS = "op_api CheckDimRange (A2/A3)"
CHECK = "op_api CheckParams (A2/A3)"
INFERENCE = "shape inference (A2/A3), after op_api CheckParams only logged it"

_INTEGER = "pass int64: bytes of another integer type are never reinterpreted"
_FACTOR = "one float32 factor per row of x1"
_SHARED = "shared_input is bfloat16 only; a header comment names float16 too"


def _scale(call: Call) -> tuple[int, ...]:
    return (call.e, 1, call.n)  # type: ignore[return-value]


def _bias(call: Call) -> tuple[int, ...]:
    return (call.e, call.n)  # type: ignore[return-value]


def _rows(call: Call) -> tuple[int, ...]:
    return (call.m,)  # type: ignore[return-value]


_rank = partial(rank_rule, paths=W4A8, source=RANKS, stage="prepare")
_dtype = partial(dtype_rule, paths=W4A8, source=CHECK)
_shape = partial(shape_rule, paths=W4A8, source=CHECK)
_check = partial(row, source=CHECK, paths=W4A8)

_RANK_ROWS = (
    _check(
        "x2-rank",
        "x2 has 3 to 7 axes",
        "rank",
        checks.check_x2_rank,
        importance=40,
        source=RANKS,
        stage="prepare",
    ),
    _check(
        "x2-storage",
        "in FRACTAL_NZ x2 has 5 to 9 storage axes",
        "storage",
        checks.check_storage_rank,
        importance=41,
        source=RANKS,
        stage="prepare",
    ),
    _check(
        "x1-rank",
        "x1 has at least 2 axes",
        "rank",
        checks.check_x1_rank,
        importance=40,
        source=RANKS,
        stage="prepare",
    ),
    _rank("out", "(batch, n)", source=f"{RANKS}, CheckParams"),
    _rank("scale", "(e, 1, n)", hint=checks.hint_scale_rank),
    _rank("offset", "(e, 1, n)", hint=checks.OFFSET),
    _rank("bias", "(e, n)", hint="8*sum_k(w*scale) of each expert and column"),
    _rank("pertoken_scale", "(m,)", hint=checks.hint_pertoken_rank),
    _rank("group_list", "(e,)"),
    _rank(
        "shared_input",
        "(batch/dp, n)",
        hint=checks.SHARED_FORM,
        source=f"{RANKS}; an older documentation page shows (e)",
    ),
    _rank("logit", "(m,)"),
    _rank("row_index", "(m,)"),
)

_DTYPE_ROWS = (
    _dtype("x1", ("int8",), hint=hint_platform, importance=0),
    _dtype(
        "scale", ("int64",), hint="float32 bits in the low half of each int64: pack_scale_int64() makes them"
    ),
    _dtype("row_index", ("int64",), hint=_INTEGER),
    _dtype("offset", ("float32",), hint=checks.OFFSET),
    _dtype("bias", ("float32",), hint="8*sum_k(w*scale), added before the per-token factor"),
    _dtype("pertoken_scale", ("float32",), hint=_FACTOR),
    _dtype("group_list", ("int64",), hint=_INTEGER),
    _dtype(
        "shared_input", ("bfloat16",), hint=_SHARED, source=f"{CHECK}; a header comment names float16 too"
    ),
    _dtype("logit", ("float32",), hint=_FACTOR),
    _dtype("out", ("float32",), hint="out must be float32, attribute dtype 0"),
)

_SHAPE_ROWS = (
    _check(
        "nz-storage",
        "FRACTAL_NZ storage holds k in blocks of 16",
        "storage",
        checks.check_nz_storage,
        importance=51,
    ),
    common("k-match", W4A8, CHECK),
    _check(
        "k-alignment",
        "k is a multiple of 64 above 128",
        "shape",
        checks.check_k_alignment,
        importance=48,
        source=f"{CHECK}; the documentation page allows k = 2048 only",
    ),
    _check(
        "n-alignment",
        "n is a multiple of 8 (NZ: 64) above 64",
        "shape",
        checks.check_n_alignment,
        importance=48,
        source=f"{CHECK}; the documentation page allows n = 7168 only",
    ),
    _check("out-rows", "out has at most m rows", "shape", checks.check_out_rows, importance=50),
    common("out-columns", W4A8, CHECK),
    common("shared-offset-sign", W4A8, CHECK),
    common("group-list-type", W4A8, CHECK),
    _shape("scale", "(e, 1, n)", _scale, ("e", "n"), hint=checks.hint_scale_shape),
    _shape("offset", "(e, 1, n)", _scale, ("e", "n"), hint=checks.hint_offset_shape),
    _shape("bias", "(e, n)", _bias, ("e", "n"), hint=hint_experts),
    _shape("pertoken_scale", "(m,)", _rows, ("m",), hint=hint_rows),
    common("group-list-length", W4A8, CHECK),
    common("shared-rows", W4A8, CHECK),
    common("shared-columns", W4A8, f"{CHECK}; an older documentation page shows (e)"),
    _shape("logit", "(m,)", _rows, ("m",), hint=hint_rows),
    _shape("row_index", "(m,)", _rows, ("m",), hint=hint_rows),
    common("shared-range", W4A8, f"{CHECK}; the documentation page asks for batch/dp <= batch/e instead"),
    _check("empty", "no argument is empty", "shape", checks.check_empty, importance=44),
)

_LATE_ROWS = (
    format_rule(checks.INPUTS, W4A8, CHECK),
    _check("x2-format", "x2 is ND or FRACTAL_NZ", "format", checks.check_weight_format, importance=60),
    _check("out-format", "out is ND", "format", checks.check_out_format, importance=60),
    _check(
        "tuning-range",
        "element 0 of tuning_config is within 0..m",
        "",
        checks.check_tuning,
        importance=56,
        source=f"{CHECK}; its message says smaller than m, the code takes m",
    ),
    _check(
        "x1-rank",
        "x1 has 2 axes",
        "rank",
        checks.check_x1_inference,
        importance=40,
        source=INFERENCE,
        stage="tiling",
        status=INNER_NULLPTR,
    ),
    _check(
        "x2-rank",
        "x2 has 3 axes",
        "rank",
        checks.check_x2_inference,
        importance=40,
        source=INFERENCE,
        stage="tiling",
        status=INNER_NULLPTR,
    ),
)

RULES: tuple[Rule, ...] = (*_RANK_ROWS, *_DTYPE_ROWS, *_SHAPE_ROWS, *_LATE_ROWS)
