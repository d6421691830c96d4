"""What the kernels can compute, beside the vendor's operator and the public PyPTO sample; refusals by name.

A refusal comes before anything is traced. It does not repeat the validator: a call the operator itself
rejects may be accepted here.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto_impl.tiling import round_up
from reference.problem import Problem

INNER_AXIS = 65535  # PyPTO's scaled_mm documentation
FP8 = ("float8_e4m3fn", "float8_e5m2")
FP4 = "float4_e2m1fn"


@dataclass(frozen=True)
class Capability:
    """One row of the table: a feature, and how each of the three treats it."""

    feature: str
    operator: str
    sample: str
    ours: str


_ROWS = (
    ("MXFP8 E4M3FN × E4M3FN", "yes", "yes", "yes"),
    ("MXFP8 E5M2 × E5M2", "yes", "yes", "yes"),
    ("mixed E4M3FN × E5M2", "yes", "no", "refused: scaled_mm takes one FP8 kind"),
    ("MXFP4 E2M1 × E2M1", "yes", "no", "yes in the interpreter; refused on an NPU"),
    ("MxA8W4 (E4M3FN × FP4)", "accepted, outside its documentation", "no", "refused"),
    ("W4A8 (INT8 × INT4), A2/A3", "yes", "no", "yes: unpacked on the host or in the kernel"),
    ("weights [E, K, N]", "yes", "yes", "yes"),
    ("weights [E, N, K], by flag", "950 only", "yes", "yes"),
    ("weights transposed by strides", "950 only", "no", "yes"),
    ("weights in FRACTAL_NZ", "accepted", "no", "refused: PyPTO's interpreter has no NZ"),
    ("scales of the weights", "per expert", "one for all experts", "per expert"),
    ("group sizes", "any, from data", "M // E for every expert", "any, from data; one trace serves all"),
    ("experts without tokens", "yes", "no", "yes"),
    ("group_list_type", "0 and 1", "1", "0 and 1, turned into counts on the host"),
    ("rows beyond the groups", "ignored", "no such rows", "ignored, never read"),
    ("K not a multiple of 64", "MX: any; W4A8: no", "no", "MX: padded on the host; W4A8: no"),
    ("bias", "950: optional BF16; A2/A3: FP32", "no", "as the operator"),
    ("offset", "A2/A3, optional", "no", "A2/A3, optional"),
    ("logit", "required", "optional", "required"),
    ("shared input, weight, offset", "yes", "yes", "yes; neither recompiles"),
    ("out", "overwritten", "accumulated into", "overwritten"),
    ("one token hit many times", "yes", "yes", "yes"),
    ("group_list and row_index values", "not checked", "not checked", "checked before the launch"),
    ("inner axis of x1 and x2", "no limit", "at most 65535", "at most 65535, refused beyond"),
    ("rounding of W4A8 partial sums", "each to FP16", "–", "INT32, rounded once to FP32"),
    ("M = 0", "950: out untouched", "no", "the initial value, nothing launched"),
    ("tuning_config", "A2/A3: tiling hint", "no", "first element: expected tokens per expert"),
)


def capabilities() -> tuple[Capability, ...]:
    """The rows of the table in docs/pypto.md."""
    return tuple(Capability(*row) for row in _ROWS)


def capability_table() -> str:
    """The rows as a Markdown table."""
    lines = ["| feature | vendor's operator | public PyPTO sample | this project |", "|---|---|---|---|"]
    lines += [f"| {row.feature} | {row.operator} | {row.sample} | {row.ours} |" for row in capabilities()]
    return "\n".join(lines)


def refusal(problem: Problem) -> str | None:
    """Why PyPTO cannot compute this call, or None."""
    family = problem.platform_row.pypto_arch
    common = refuse_common(problem)
    if common:
        return common
    return refuse_mx(problem) if family == "DAV_3510" else refuse_w4a8(problem)


def refuse_common(problem: Problem) -> str | None:
    """What no kernel takes."""
    attributes = problem.attributes
    for name in ("x1", "x2", "scale", "pertoken_scale", "group_list", "logit", "row_index", "out"):
        if problem.arguments[name] is None:
            return f"{name} is null; the kernels need it"
    for name in ("antiquant_scale", "antiquant_offset"):
        if problem.arguments[name] is not None:
            return f"{name} is given; the kernels have no such argument"
    if attributes.transpose_x1:
        return "transpose_x1 is set; the kernels read x1 as (m, k)"
    for name in ("x2", "scale"):
        if "NZ" in problem.spec(name).format:
            return f"{name} is {problem.spec(name).format}; the kernels read ND only"
    if problem.spec("out").dtype != "float32" or attributes.dtype != 0:
        return f"out is {problem.spec('out').dtype}, dtype {attributes.dtype}; the kernels write float32"
    if problem.k == 0 or problem.e == 0:
        return f"k {problem.k}, e {problem.e}; the kernels need at least one of each"
    return refuse_inner_axis(problem)


def refuse_inner_axis(problem: Problem) -> str | None:
    """PyPTO's limit on the last axis of both matrices."""
    for name, length in (("k", round_up(problem.k, 64)), ("n", problem.n)):
        if length > INNER_AXIS:
            return f"{name} is {length}; PyPTO's matrix products take inner axes up to {INNER_AXIS}"
    return None


def refuse_mx(problem: Problem) -> str | None:
    """What the MX kernel does not take."""
    x1, x2 = problem.spec("x1").dtype, problem.spec("x2").dtype
    if x1 in FP8 and x2 == FP4:
        return f"x1 is {x1} and x2 is {x2} (MxA8W4); PyPTO's scaled_mm has no mixed widths"
    if x1 in FP8 and x2 in FP8 and x1 != x2:
        return f"x1 is {x1} and x2 is {x2}; PyPTO's scaled_mm takes one FP8 kind for both"
    if x1 != x2 or x1 not in (*FP8, FP4):
        return f"x1 is {x1} and x2 is {x2}; the MX kernel takes {', '.join((*FP8, FP4))}, the same for both"
    for name in ("scale", "pertoken_scale"):
        if problem.spec(name).dtype != "float8_e8m0fnu":
            return f"{name} is {problem.spec(name).dtype}; the MX kernel takes float8_e8m0fnu"
    if problem.arguments["offset"] is not None:
        return "offset is given; the MX kernel has none"
    return None


def refuse_w4a8(problem: Problem) -> str | None:
    """What the W4A8 kernels do not take."""
    expected = {"x1": "int8", "x2": "int32", "scale": "int64", "pertoken_scale": "float32"}
    for name, dtype in expected.items():
        if problem.spec(name).dtype != dtype:
            return f"{name} is {problem.spec(name).dtype}; the W4A8 kernels take {dtype}"
    if problem.attributes.transpose_x2:
        return "transpose_x2 is set; the W4A8 kernels read x2 as (e, k, n/8)"
    if problem.k % 64:
        return f"k is {problem.k}; the W4A8 kernels take multiples of 64, as the operator does"
    return None
