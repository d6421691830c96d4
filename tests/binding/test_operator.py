"""The operator as one function, and phase 1's status for problems without data."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import grouped_matmul_finalize_routing_v3 as operator
from reference import InvalidProblemError, ProblemError, golden
from reference.cases import Case
from reference.operands import Operands

MX = Case("mx", "mxfp8", 8, 64, 32, 2, 4, options={"bias": True, "shared_rows": 2, "shared_offset": 1})
TURNED = Case("turned", "mxfp8", 8, 96, 40, 2, 4, options={"transpose_x2": True})
FP4 = Case("fp4", "mxfp4", 8, 64, 32, 2, 4)
W4A8 = Case("w4a8", "w4a8", 8, 256, 128, 2, 4, platform="atlas_a2", options={"offset": True})
ALL = pytest.mark.parametrize("case", [MX, TURNED, FP4, W4A8], ids=lambda case: case.name)
E8M0 = ml_dtypes.float8_e8m0fnu


def arguments(operands: Operands) -> dict[str, Any]:
    """The call's keyword arguments."""
    attributes = operands.attributes
    return {
        **operands.arrays,
        "dtypes": {name: operands.problem.spec(name).dtype for name in ("x1", "x2")},
        "shared_input_weight": attributes.shared_input_weight,
        "shared_input_offset": attributes.shared_input_offset,
        "transpose_x2": attributes.transpose_x2,
        "group_list_type": attributes.group_list_type,
        "library": aclnn_bindings.simulator(operands.problem.platform_row.default_soc),
    }


def by_hand() -> dict[str, Any]:
    """Two rows, one expert each, every product known: x1 = 1 and 2, x2 = 3, scales 2 and 1/2, logit 1 and
    4."""
    fp8 = ml_dtypes.float8_e4m3fn
    return {
        "x1": np.repeat([[1.0], [2.0]], 64, axis=1).astype(fp8),
        "x2": np.full((2, 64, 8), 3.0).astype(fp8),
        "scale": np.full((2, 1, 8, 2), 2.0).astype(E8M0),
        "pertoken_scale": np.full((2, 1, 2), 0.5).astype(E8M0),
        "group_list": np.array([1, 1]),
        "logit": np.array([1.0, 4.0], np.float32),
        "row_index": np.array([1, 1]),
        "batch": 2,
        "library": aclnn_bindings.simulator("Ascend950PR_9579"),
    }


def test_a_call_worked_out_by_hand() -> None:
    out = operator(**by_hand())
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, [[0.0] * 8, [64 * 3 * 1 + 64 * 6 * 4.0] * 8])


@ALL
def test_the_function_agrees_with_the_golden(case: Case) -> None:
    operands = case.make()
    stage = golden(operands, magnitudes=True)
    assert stage.magnitude is not None
    slack = 1e-5 * stage.magnitude + (0 if stage.rounding is None else stage.rounding)
    out = np.full((case.batch, case.n), np.nan, np.float32)
    assert operator(**arguments(operands), out=out) is out
    assert (np.abs(out - stage.out) <= slack).all()
    np.testing.assert_array_equal(operator(**arguments(operands), batch=case.batch), out)


@ALL
def test_the_function_changes_none_of_its_inputs(case: Case) -> None:
    operands = case.make()
    before = {name: array.tobytes() for name, array in operands.arrays.items()}
    operator(**arguments(operands), batch=case.batch)
    assert {name: array.tobytes() for name, array in operands.arrays.items()} == before


def test_read_only_inputs_are_taken(live: Callable[[], dict[str, int]]) -> None:
    before = live()
    call = by_hand()
    for value in call.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    np.testing.assert_array_equal(operator(**call)[0], np.zeros(8))
    assert live() == before


@pytest.mark.parametrize(
    ("given", "said"), [({}, "none"), ({"batch": 2, "out": np.zeros((2, 8), np.float32)}, "both")]
)
def test_exactly_one_of_batch_and_out(given: dict[str, Any], said: str) -> None:
    call = {name: value for name, value in by_hand().items() if name != "batch"}
    with pytest.raises(ProblemError, match=f"batch, out: expected exactly one of them, got {said}"):
        operator(**call, **given)


def test_arguments_are_keyword_only() -> None:
    with pytest.raises(TypeError, match="positional"):
        operator(np.zeros((2, 64)), batch=2)  # type: ignore[misc, call-arg]


def test_a_call_that_the_rules_refuse_is_refused_before_the_library() -> None:
    call = by_hand()
    with pytest.raises(InvalidProblemError, match="scale"):
        operator(**{**call, "scale": np.full((2, 2, 8, 2), 2.0).astype(E8M0)})
    with pytest.raises(InvalidProblemError, match="row_index"):
        operator(**{**call, "row_index": np.array([1, 2])})


def test_wrong_element_types_of_the_public_sample_are_named() -> None:
    call = by_hand()
    with pytest.raises(InvalidProblemError, match="row_index dtype: expected int64"):
        operator(**{**call, "row_index": np.array([1, 1], np.float32)})
    with pytest.raises(InvalidProblemError, match="logit dtype: expected float32"):
        operator(**{**call, "logit": np.array([1, 4], np.int64)})


def test_with_validation_off_the_library_answers() -> None:
    call = by_hand()
    with pytest.raises(aclnn_bindings.RejectedError) as caught:
        operator(**{**call, "logit": np.array([1, 4], np.int64)}, validate="off")
    assert caught.value.code == 161002


def test_no_rows_give_the_initial_value_and_a_warning() -> None:
    call = by_hand()
    empty = {
        "x1": call["x1"][:0],
        "pertoken_scale": call["pertoken_scale"][:0],
        "logit": call["logit"][:0],
        "row_index": call["row_index"][:0],
        "group_list": np.array([0, 0]),
        "shared_input": np.full((1, 8), 3.0).astype(ml_dtypes.bfloat16),
        "shared_input_offset": 1,
        "shared_input_weight": 0.5,
    }
    with pytest.warns(aclnn_bindings.InitialValueWarning, match="writes nothing"):
        out = operator(**{**call, **empty})
    np.testing.assert_array_equal(out, [[0.0] * 8, [1.5] * 8])
    given = np.full((2, 8), 9.0, np.float32)
    with pytest.warns(aclnn_bindings.InitialValueWarning):
        assert operator(**{**call, **empty, "batch": None, "out": given}) is given
    np.testing.assert_array_equal(given, out)


def test_a_normal_call_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator(**by_hand())


def test_without_a_vendor_library_the_default_says_how_to_go_on() -> None:
    call = {name: value for name, value in by_hand().items() if name != "library"}
    try:
        aclnn_bindings.find_library()
    except aclnn_bindings.LibraryNotFoundError:
        with pytest.raises(
            aclnn_bindings.LibraryNotFoundError, match=r"without a device use aclnn_bindings\.simulator"
        ):
            operator(**call)
    else:
        pytest.skip("a vendor library is installed here")


def test_a_thousand_calls_do_not_grow(live: Callable[[], dict[str, int]]) -> None:
    call = by_hand()
    before = live()
    operator(**call)
    peak = call["library"].memory_stats().peak
    for _ in range(1000):
        operator(**call)
    stats = call["library"].memory_stats()
    assert (stats.peak, stats.in_use) == (peak, 0)
    assert live() == before


def test_phase_one_status_needs_no_data_and_leaves_nothing(live: Callable[[], dict[str, int]]) -> None:
    before = live()
    problem = MX.make().problem
    assert aclnn_bindings.phase_one_status(problem) == 0
    assert aclnn_bindings.phase_one_status(W4A8.make().problem) == 0
    null = type(problem)(problem.platform, {**problem.arguments, "logit": None}, problem.attributes)
    assert aclnn_bindings.phase_one_status(null) == 161001
    assert live() == before


def test_importing_the_package_loads_no_library_and_no_numpy() -> None:
    code = "import sys, aclnn_bindings, json; print(json.dumps(sorted(sys.modules)))"
    command, here = [sys.executable, "-c", code], Path(__file__).parent
    printed = subprocess.run(command, cwd=here, check=True, capture_output=True, text=True).stdout
    loaded = set(json.loads(printed))
    assert loaded.isdisjoint(
        {"numpy", "torch", "torch_npu", "pypto", "pypto_impl", "gmmfr", "aclnn_bindings._acl"}
    )


def test_the_binding_imports_only_downwards() -> None:
    folder = Path(aclnn_bindings.__file__).parent
    seen = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                seen.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Import):
                seen.update(alias.name.partition(".")[0] for alias in node.names)
    assert seen.isdisjoint({"gmmfr", "pypto_impl"})
    assert {"reference", "aclnn_bindings"} <= seen


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pertoken_scale": None}, ["pertoken_scale: expected a tensor, got null"]),
        (
            {"x1": None, "row_index": None},
            ["x1: expected a tensor, got null", "row_index: expected a tensor"],
        ),
        ({"antiquant_scale": np.zeros(2, np.float32)}, ["antiquant_scale: expected null, got float32 ND"]),
        ({"antiquant_offset": np.zeros(2, np.float32)}, ["antiquant_offset: expected null, got float32 ND"]),
    ],
)
def test_missing_and_reserved_inputs_are_for_the_rules(change: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(InvalidProblemError) as caught:
        operator(**{**by_hand(), **change})
    assert caught.value.report.status == 161001
    assert all(text in str(caught.value) for text in said)
    with pytest.raises(aclnn_bindings.RejectedError) as refused:
        operator(**{**by_hand(), **change}, validate="off")
    assert refused.value.code == 161001
