"""Rules of Ascend 950 for FP8 with FP4 weights in the vendor's order: a path this project refuses."""

from __future__ import annotations

from functools import partial

from reference.rules import mx_checks as checks
from reference.rules.build import dtype_rule, format_rule, rank_rule, row, shape_rule
from reference.rules.model import MXA8W4, Rule
from reference.rules.mx import INPUTS, INTEGER, LOGIT, OUT, PAIRS, SHARED, bias, rows
from reference.rules.shared import common, hint_experts, hint_rows
from reference.status import INNER_NULLPTR, NULLPTR

CHECK = "950 MxA8W4 checker"

_row = partial(row, source=CHECK, paths=MXA8W4)
_dtype = partial(dtype_rule, source=CHECK, paths=MXA8W4)
_rank = partial(rank_rule, source=CHECK, paths=MXA8W4)
_shape = partial(shape_rule, source=CHECK, paths=MXA8W4)
_E8M0 = ("float8_e8m0fnu",)

RULES: tuple[Rule, ...] = (
    _row(
        "offset-null",
        "offset is null on Ascend 950",
        "",
        checks.check_offset_null,
        importance=12,
        status=NULLPTR,
    ),
    _dtype("scale", _E8M0, hint=checks.hint_scale_dtype),
    _dtype("row_index", ("int64",), hint=INTEGER),
    _dtype("pertoken_scale", _E8M0, hint=checks.hint_scale_dtype),
    _dtype("bias", ("bfloat16",), hint="the model's bias, added before the product with logit"),
    _dtype("group_list", ("int64",), hint=INTEGER),
    _dtype("shared_input", ("bfloat16",), hint=SHARED),
    _dtype("logit", ("float32",), hint=LOGIT),
    _dtype("out", ("float32",), hint=OUT),
    _row("x1-transposed", "x1 is not a transposed view", "strides", checks.check_x1_turned, importance=42),
    _row("x2-transposed", "MxA8W4 weights are transposed", "layout", checks.check_x2_turned, importance=42),
    _rank("x1", "(m, k)"),
    _rank("x2", "(e, n, k)"),
    _row("x2-storage", "x2 has 5 storage axes", "storage", checks.check_storage_five, importance=41),
    _rank("scale", "(e, n, k/64, 2)", hint=PAIRS),
    _rank("pertoken_scale", "(m, k/64, 2)", hint=PAIRS),
    _rank("group_list", "(e,)"),
    _rank("logit", "(m,)"),
    _rank("row_index", "(m,)"),
    _rank("out", "(batch, n)"),
    _rank("bias", "(e, n)"),
    _rank("shared_input", "(batch/dp, n)"),
    common("group-list-type", MXA8W4, CHECK),
    common("shared-offset-sign", MXA8W4, CHECK),
    common("shared-offset-range", MXA8W4, CHECK),
    common("k-match", MXA8W4, CHECK),
    common("group-list-length", MXA8W4, CHECK),
    _row("expert-limit", "x2 holds at most 1024 experts", "shape", checks.check_experts, importance=48),
    _row("k-positive", "k is not 0", "shape", checks.check_k_positive, importance=44),
    _row("k-32", "MxA8W4: k is a multiple of 32", "shape", checks.check_k_32, importance=48),
    _row("n-32", "MxA8W4: n is a multiple of 32", "shape", checks.check_n_32, importance=48),
    _row("scale-shape", "scale is (e, n, k/64, 2)", "shape", checks.check_scale_shape, importance=50),
    _shape("pertoken_scale", "(m, k/64, 2)", checks.pertoken_shape, ("m", "k"), hint=PAIRS),
    _shape("logit", "(m,)", rows, ("m",), hint=hint_rows),
    _shape("row_index", "(m,)", rows, ("m",), hint=hint_rows),
    common("out-columns", MXA8W4, CHECK),
    _shape("bias", "(e, n)", bias, ("e", "n"), hint=hint_experts),
    common("shared-rows", MXA8W4, CHECK),
    common("shared-range", MXA8W4, CHECK),
    common("shared-columns", MXA8W4, CHECK),
    format_rule(INPUTS, MXA8W4, CHECK),
    _row("x2-format", "MxA8W4 takes FRACTAL_NZ weights", "format", checks.check_nz_only, importance=60),
    _row("out-format", "out is in a base format", "format", checks.check_out_private, importance=60),
    _row(
        "x2-empty",
        "x2 holds at least one expert",
        "shape",
        checks.check_experts_exist,
        importance=65,
        source="tiling (950); by analogy with full MX, not established for MxA8W4",
        stage="tiling",
        status=INNER_NULLPTR,
    ),
)
