"""What PyPTO cannot compute is refused by name before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pypto_impl import RefusedError, capabilities, capability_table, refusal, run
from pypto_impl import kernel_run as kernel_run_module
from reference.operands import Operands
from reference.problem import Problem, TensorSpec

Maker = Callable[..., Operands]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "pypto.md"


def changed(problem: Problem, attributes: dict[str, Any] | None = None, **specs: Any) -> Problem:
    """The problem with other descriptions (fields of a spec, or None) and attributes."""
    arguments: dict[str, TensorSpec | None] = dict(problem.arguments)
    for name, change in specs.items():
        arguments[name] = None if change is None else replace(problem.spec(name), **change)
    return Problem(problem.platform, arguments, replace(problem.attributes, **(attributes or {})))


MX_REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "mixed FP8 kinds": (
        {"x1": {"dtype": "float8_e5m2"}},
        "x1 is float8_e5m2 and x2 is float8_e4m3fn; PyPTO's scaled_mm takes one FP8 kind for both",
    ),
    "MxA8W4": (
        {"x2": {"dtype": "float4_e2m1fn"}},
        "x1 is float8_e4m3fn and x2 is float4_e2m1fn (MxA8W4); PyPTO's scaled_mm has no mixed widths",
    ),
    "NZ": ({"x2": {"format": "FRACTAL_NZ"}}, "x2 is FRACTAL_NZ; the kernels read ND only"),
    "n beyond the inner axis": (
        {"x2": {"shape": (2, 64, 65536)}},
        "n is 65536; PyPTO's matrix products take inner axes up to 65535",
    ),
    "k beyond the inner axis after padding": (
        {"x1": {"shape": (3, 65480)}},
        "k is 65536; PyPTO's matrix products take inner axes up to 65535",
    ),
    "float scales": (
        {"scale": {"dtype": "float32"}},
        "scale is float32; the MX kernel takes float8_e8m0fnu",
    ),
    "integers": (
        {"x1": {"dtype": "int8"}, "x2": {"dtype": "int8"}},
        "x1 is int8 and x2 is int8; the MX kernel takes float8_e4m3fn, float8_e5m2, float4_e2m1fn, "
        "the same for both",
    ),
    "transposed x1": (
        {"attributes": {"transpose_x1": True}},
        "transpose_x1 is set; the kernels read x1 as (m, k)",
    ),
    "no logit": ({"logit": None}, "logit is null; the kernels need it"),
    "k 0": ({"x1": {"shape": (3, 0)}}, "k 0, e 2; the kernels need at least one of each"),
    "BF16 out": ({"out": {"dtype": "bfloat16"}}, "out is bfloat16, dtype 0; the kernels write float32"),
}


@pytest.mark.parametrize(("changes", "reason"), MX_REFUSALS.values(), ids=MX_REFUSALS.keys())
def test_mx_refusals(make_mx: Maker, changes: dict[str, Any], reason: str) -> None:
    assert refusal(changed(make_mx([2, 1]).problem, **changes)) == reason


def test_offset_on_950_is_refused(make_mx: Maker) -> None:
    problem = make_mx([2, 1]).problem
    arguments = {**problem.arguments, "offset": TensorSpec((2, 1, 32), "float32")}
    assert refusal(Problem("ascend950", arguments)) == "offset is given; the MX kernel has none"


W4A8_REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "INT4 descriptor": (
        {"x2": {"dtype": "int4", "shape": (2, 192, 72)}},
        "x2 is int4; the W4A8 kernels take int32",
    ),
    "k": (
        {"x1": {"shape": (3, 200)}},
        "k is 200; the W4A8 kernels take multiples of 64, as the operator does",
    ),
    "transposed x2": (
        {"attributes": {"transpose_x2": True}},
        "transpose_x2 is set; the W4A8 kernels read x2 as (e, k, n/8)",
    ),
    "NZ": ({"x2": {"format": "FRACTAL_NZ"}}, "x2 is FRACTAL_NZ; the kernels read ND only"),
}


@pytest.mark.parametrize(("changes", "reason"), W4A8_REFUSALS.values(), ids=W4A8_REFUSALS.keys())
def test_w4a8_refusals(make_w4a8: Maker, changes: dict[str, Any], reason: str) -> None:
    assert refusal(changed(make_w4a8([2, 1]).problem, **changes)) == reason


def test_what_the_tests_run_is_not_refused(make_mx: Maker, make_w4a8: Maker) -> None:
    for element in ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
        assert refusal(make_mx([2, 1], element=element, bias=True, shared=1).problem) is None
    assert refusal(make_w4a8([2, 1], offset=True, shared=1).problem) is None


def test_a_refused_call_starts_nothing(make_mx: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(engine: str) -> None:
        raise AssertionError(f"a session for {engine} was asked for")

    monkeypatch.setattr(kernel_run_module, "session", started)
    operands = make_mx([2, 1])
    refused = Operands(changed(operands.problem, x1={"dtype": "float8_e5m2"}), operands.arrays)
    with pytest.raises(RefusedError, match="PyPTO: x1 is float8_e5m2 and x2 is float8_e4m3fn"):
        run(refused, on="interpreter")


def test_the_documented_table_is_the_one_in_the_code() -> None:
    assert capability_table() in DOCUMENT.read_text(encoding="utf-8")


def test_every_row_says_something_of_all_three() -> None:
    for row in capabilities():
        assert all((row.feature, row.operator, row.sample, row.ours)), row
