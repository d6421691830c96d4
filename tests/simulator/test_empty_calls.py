"""Calls without rows or columns on Ascend 950: the vendor computes nothing; the initial value is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gmmfr
from aclnn_bindings import phase_one_status
from reference import Operands, Problem, TensorSpec, golden, read_bundle, validate, write_bundle


def call(m: int, n: int, elements: Any, transposed: bool, batch: int = 4) -> Operands:
    k, e, groups = 96, 2, 2
    weight = (e, n, k) if transposed else (e, k, n)
    scale = (e, n, groups, 2) if transposed else (e, groups, n, 2)
    one = np.uint8(127)
    return Operands.from_arrays(
        platform="ascend950",
        x1=np.ones((m, k), elements),
        x2=np.ones(weight, elements),
        scale=np.full(scale, one).view(ml_dtypes.float8_e8m0fnu),
        pertoken_scale=np.full((m, groups, 2), one).view(ml_dtypes.float8_e8m0fnu),
        bias=np.ones((e, n), ml_dtypes.bfloat16),
        group_list=np.array([m, 0]),
        shared_input=np.full((1, n), 3, ml_dtypes.bfloat16),
        shared_input_offset=2,
        shared_input_weight=0.5,
        logit=np.ones(m, np.float32),
        row_index=np.zeros(m, np.int64),
        transpose_x2=transposed,
        batch=batch,
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("elements", [ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn])
@pytest.mark.parametrize(("m", "n"), [(0, 64), (5, 0), (0, 0)])
def test_a_call_without_rows_or_columns_gives_the_shared_rows(
    m: int, n: int, elements: Any, transposed: bool, tmp_path: Path
) -> None:
    operands = call(m, n, elements, transposed)
    expected = np.zeros((4, n))
    expected[2] = 1.5
    for precision in ("float64", "float32"):
        np.testing.assert_array_equal(golden(operands, precision).out, expected)
    write_bundle(tmp_path / "empty.safetensors", operands)
    report = gmmfr.ab(read_bundle(tmp_path / "empty.safetensors"), "simulator")
    assert report.verdict == "PASS"
    np.testing.assert_array_equal(report.backends["simulator"].out, expected)
    assert report.backends["simulator"].notes == (
        "the operator writes nothing with M = 0 or N = 0; the result is its initial value",
    )
    assert "empty-call" in [violation.rule for violation in report.violations]


@pytest.mark.parametrize(
    ("shape", "strides", "status"),
    [
        ((0, 2048), (1, 0), 161002),  # swapped it is (2048, 0): not empty of rows, and transposed
        ((2048, 0), (1, 2048), 0),  # swapped it is (0, 2048): the call returns before that is looked at
    ],
)
def test_an_empty_x1_counts_its_rows_after_its_dims_were_swapped(
    shape: tuple[int, int], strides: tuple[int, int], status: int
) -> None:
    plain = call(0, 64, ml_dtypes.float8_e4m3fn, transposed=False).problem
    x1 = TensorSpec(shape, "float8_e4m3fn", strides=strides)
    problem = Problem(plain.platform, {**plain.arguments, "x1": x1}, plain.attributes)
    assert phase_one_status(problem) == status
    assert validate(problem).status == status
