"""Tensors of torch on the CPU are taken as they are: views, every format, and results that are tensors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import gmmfr
from aclnn_bindings import (
    BindingError,
    InitialValueWarning,
    Plan,
    grouped_matmul_finalize_routing_v3,
    simulator,
)
from aclnn_bindings.torch_support import as_source
from reference import Operands, Problem, golden, make_case
from reference.problem import TensorSpec
from reference.torch_tensors import array_of, describe_tensor, tensor_of

torch: Any = pytest.importorskip("torch")

CASES = ("w0", "c5", "c18_w4a8", "m0", "c10", "c12", "c15", "c16", "c18_mxfp8")


def tensors_of(operands: Operands) -> dict[str, Any]:
    """The operands as tensors in torch's own dtypes."""
    return {
        name: tensor_of(array, operands.problem.spec(name).dtype) for name, array in operands.arrays.items()
    }


def scalars_of(operands: Operands) -> dict[str, Any]:
    given = operands.attributes.to_json()
    del given["dtype"]
    return given


@pytest.mark.parametrize(
    "kind",
    ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "bfloat16", "int8", "int32", "int64", "float32"],
)
def test_a_cpu_tensor_shares_its_memory_with_the_array(kind: str) -> None:
    tensor = torch.zeros(4, 6, dtype=torch.uint8 if kind.startswith("float8") else getattr(torch, kind))
    tensor = tensor.view(getattr(torch, kind))
    array = array_of("x1", tensor)
    assert array.dtype.name == kind
    assert array.__array_interface__["data"][0] == tensor.data_ptr()
    back = tensor_of(array)
    assert (back.dtype, back.data_ptr()) == (tensor.dtype, tensor.data_ptr())


def test_packed_fp4_shares_its_memory_and_counts_single_values() -> None:
    tensor = torch.zeros(2, 3, 16, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    assert array_of("x2", tensor).__array_interface__["data"][0] == tensor.data_ptr()
    assert describe_tensor("x2", tensor) == TensorSpec((2, 3, 32), "float4_e2m1fn")


def test_a_transposed_packed_weight_counts_along_its_packed_axis() -> None:
    stored = torch.zeros(2, 6, 16, dtype=torch.uint8)  # (e, n, k/2)
    spec = describe_tensor("x2", stored.transpose(1, 2), "float4_e2m1fn")
    assert spec == TensorSpec((2, 32, 6), "float4_e2m1fn", strides=(192, 1, 32))


def test_a_part_of_a_tensor_is_described_by_strides_and_offset() -> None:
    whole = torch.zeros(6, 8, 4, dtype=torch.int8)
    assert describe_tensor("x2", whole[2:5]) == TensorSpec((3, 8, 4), "int8", offset=64)
    assert describe_tensor("x2", whole[:, 1:3, 2:]) == TensorSpec(
        (6, 2, 2), "int8", strides=(32, 4, 1), offset=6
    )


def test_a_dtype_that_the_operator_does_not_know_is_named() -> None:
    with pytest.raises(ValueError, match="x1: dtype complex64 is unknown to the operator"):
        describe_tensor("x1", torch.zeros(2, dtype=torch.complex64))


def test_a_hint_that_does_not_fit_the_tensor_says_both() -> None:
    with pytest.raises(ValueError, match="x1: dtypes says float4_e2m1fn, the tensor holds float32"):
        describe_tensor("x1", torch.zeros(2), "float4_e2m1fn")


@pytest.mark.parametrize("name", CASES)
def test_the_function_gives_a_tensor_with_the_bits_of_the_array(name: str) -> None:
    operands = make_case(name)
    library = simulator(operands.problem.platform_row.default_soc)
    given = {"batch": operands.batch, "library": library, **scalars_of(operands)}
    hints = {
        key: spec.dtype for key, spec in operands.problem.arguments.items() if spec and key in ("x1", "x2")
    }
    from_arrays = grouped_matmul_finalize_routing_v3(**operands.arrays, dtypes=hints, **given)
    from_tensors = grouped_matmul_finalize_routing_v3(**tensors_of(operands), **given)
    assert isinstance(from_arrays, np.ndarray)
    assert (type(from_tensors), from_tensors.dtype) == (torch.Tensor, torch.float32)
    assert np.array_equal(from_tensors.numpy(), from_arrays)


def test_an_out_tensor_is_filled_and_returned() -> None:
    operands = make_case("c18_w4a8")
    out = torch.full((4, 128), float("nan"))
    library = simulator("Ascend910B2")
    got = grouped_matmul_finalize_routing_v3(
        **tensors_of(operands), out=out, library=library, **scalars_of(operands)
    )
    assert got is out
    assert np.allclose(out.numpy(), golden(operands).out, rtol=1e-3, atol=1e-2)


def test_inputs_are_never_changed() -> None:
    operands = make_case("w0")
    tensors = tensors_of(operands)
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    for _ in range(2):
        grouped_matmul_finalize_routing_v3(
            **tensors, batch=2, library=simulator("Ascend910B2"), **scalars_of(operands)
        )
    assert all(torch.equal(tensors[name], before[name]) for name in tensors)


def test_a_plan_takes_tensors_gives_tensors_and_can_be_updated() -> None:
    operands = make_case("c18_mxfp8")
    tensors = tensors_of(operands)
    with Plan(operands.problem, tensors, library=simulator("Ascend950PR_9579")) as plan:
        plan.execute()
        first = plan.result()
        plan.update(logit=torch.zeros(8))
        plan.execute()
        second = plan.result()
    assert (type(first), type(second)) == (torch.Tensor, torch.Tensor)
    assert np.allclose(first.numpy(), golden(operands).out, rtol=1e-4, atol=1e-2)
    shared = operands.arrays["shared_input"].astype(np.float32) * np.float32(0.5)
    expected = np.zeros((4, 128), np.float32)
    expected[1:3] = shared
    assert np.array_equal(second.numpy(), expected)


def test_a_call_without_rows_gives_the_initial_value_as_tensor() -> None:
    operands = make_case("c17")
    with pytest.warns(UserWarning, match="writes nothing"):
        got = grouped_matmul_finalize_routing_v3(
            **tensors_of(operands), batch=4, library=simulator("Ascend950PR_9579"), **scalars_of(operands)
        )
    assert isinstance(got, torch.Tensor)
    assert np.array_equal(got.numpy(), golden(operands).out)


@pytest.mark.parametrize("m", [0, 8])
@pytest.mark.parametrize("name", ["logit", "row_index", "scale"])
def test_one_tensor_among_arrays_makes_the_result_a_tensor_with_and_without_rows(m: int, name: str) -> None:
    full = make_case("c12")
    call = {**full.arrays, "group_list": np.array([m, 0])}
    for rows in ("x1", "pertoken_scale", "logit", "row_index"):
        call[rows] = call[rows][:m]
    call[name] = tensor_of(call[name])
    with nullcontext() if m else pytest.warns(InitialValueWarning):
        result = grouped_matmul_finalize_routing_v3(
            **call, batch=full.batch, transpose_x2=True, library=simulator("Ascend950PR_9579")
        )
    assert isinstance(result, torch.Tensor)


def test_problem_and_run_take_tensors() -> None:
    operands = make_case("c15")
    call = {**tensors_of(operands), **scalars_of(operands), "platform": "ascend950", "batch": 4}
    assert Problem.from_arrays(**call) == operands.problem
    result = gmmfr.run(Operands.from_arrays(**call), backend="simulator")
    assert np.array_equal(result.out, gmmfr.run(operands, backend="simulator").out)


class OnTheHost:
    """An array of another library: all that is known of it is the DLPack protocol."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU


def test_objects_with_dlpack_are_taken_without_a_copy() -> None:
    operands = make_case("w0")
    wrapped = {name: OnTheHost(array) for name, array in operands.arrays.items()}
    out = grouped_matmul_finalize_routing_v3(
        **wrapped, batch=2, library=simulator("Ascend910B2"), **scalars_of(operands)
    )
    assert np.array_equal(out, golden(operands).out)
    with Plan(operands.problem, wrapped, library=simulator("Ascend910B2")) as plan:
        plan.execute()
        assert np.array_equal(plan.result(), golden(operands).out)
    source = as_source("x1", wrapped["x1"], operands.problem.spec("x1"))
    assert np.shares_memory(source, operands.arrays["x1"])  # type: ignore[arg-type]


def test_a_tensor_on_another_device_is_refused_by_name() -> None:
    operands = make_case("w0")
    tensors = {**tensors_of(operands), "logit": torch.zeros(4, device="meta")}
    with pytest.raises(ValueError, match="logit: expected a tensor on the CPU or an NPU, got one on meta"):
        Plan(operands.problem, tensors, library=simulator("Ascend910B2"))


def test_importing_the_packages_imports_no_torch() -> None:
    program = (
        "import sys, gmmfr.backends, aclnn_bindings.operator, reference.operands; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_missing_torch_is_said_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from aclnn_bindings.torch_support import import_torch

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BindingError, match=r"torch is not installed: pip install torch==2\.13\.0"):
        import_torch()


@pytest.mark.needs_torch_npu
def test_a_backend_that_cannot_load_is_explained(start: Callable[..., Any]) -> None:
    import os

    environment = {k: v for k, v in os.environ.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    environment["LD_LIBRARY_PATH"] = ""
    program = "from aclnn_bindings.torch_support import import_torch; import_torch()"
    outcome = start(sys.executable, "-c", program, environment=environment)
    assert outcome.returncode != 0
    assert "BindingError: torch loads torch_npu by itself, and that failed" in outcome.stderr
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in outcome.stderr
    assert "gmmfr simulate -- python" in outcome.stderr
