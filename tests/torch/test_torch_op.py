"""The custom operator: torch_npu's arguments, a fake kernel, tracing, and the checks of torch itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gmmfr.torch_call import torch_arguments
from reference import Operands, compare, golden, make_case

torch: Any = pytest.importorskip("torch")

CASES = ("w0", "c5", "c18_w4a8", "m0", "c10", "c11", "c12", "c15", "c16", "c18_mxfp8")
#: As torch_npu 2.13.0 declares its operator.
ARGUMENTS = (
    "Tensor x, Tensor w, Tensor group_list, *, Tensor? scale=None, Tensor? bias=None, Tensor? offset=None, "
    "Tensor? pertoken_scale=None, Tensor? shared_input=None, Tensor? logit=None, Tensor? row_index=None, "
    "ScalarType? dtype=None, float? shared_input_weight=1., int? shared_input_offset=0, int? output_bs=0, "
    "int? group_list_type=1, int[]? tuning_config=None, int? x_dtype=None, int? w_dtype=None, "
    "int? scale_dtype=None, int? pertoken_scale_dtype=None"
)


@pytest.fixture(scope="module")
def operator() -> Any:
    import gmmfr.torch_op

    return gmmfr.torch_op.grouped_matmul_finalize_routing


def with_bytes(operands: Operands) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call with every one-byte float as uint8 and its number: what torch's own checks can compare."""
    positional, named = torch_arguments(operands)
    for key in ("scale", "pertoken_scale"):
        named[key] = named[key].view(torch.uint8)
        named[f"{key}_dtype"] = 256 + 37  # torch_npu.float8_e8m0fnu
    return positional, named


def test_the_schema_is_torch_npus(operator: Any) -> None:
    schema = str(operator.default._schema)
    assert schema == f"gmmfr::grouped_matmul_finalize_routing({ARGUMENTS}) -> Tensor"


@pytest.mark.needs_torch_npu
def test_the_installed_torch_npu_has_the_same_schema(run_simulated: Callable[..., Any]) -> None:
    program = (
        "import json, torch, torch_npu; "
        "print(json.dumps(str(torch.ops.npu.npu_grouped_matmul_finalize_routing.default._schema)))"
    )
    outcome = run_simulated(program, soc="Ascend950PR_9579")
    schema = json.loads(outcome.stdout.splitlines()[-1])
    assert schema == f"npu::npu_grouped_matmul_finalize_routing({ARGUMENTS}) -> Tensor"


@pytest.mark.parametrize("name", CASES)
def test_cpu_tensors_are_computed(operator: Any, name: str) -> None:
    operands = make_case(name)
    positional, named = torch_arguments(operands)
    out = operator(*positional, **named)
    reference = golden(operands, magnitudes=True)
    assert compare(out.numpy(), reference.out, reference).verdict == "PASS"


def test_torchs_packed_fp4_needs_no_numbers(operator: Any) -> None:
    operands = make_case("c15")
    positional, named = torch_arguments(operands)
    expected = operator(*positional, **named)
    x, w = (tensor.view(torch.float4_e2m1fn_x2) for tensor in positional[:2])
    del named["x_dtype"], named["w_dtype"]
    assert torch.equal(operator(x, w, positional[2], **named), expected)


def test_output_bs_0_and_none_mean_the_rows_of_x(operator: Any) -> None:
    positional, named = torch_arguments(make_case("c5"))  # 28 rows for 7 tokens
    for rows in (0, None):
        named["output_bs"] = rows
        assert operator(*positional, **named).shape == (28, 128)


def test_defaults_are_weight_1_and_counts(operator: Any) -> None:
    operands = make_case("w0")
    positional, named = torch_arguments(operands)
    for key in ("shared_input_weight", "shared_input_offset", "group_list_type"):
        del named[key]
    assert np.array_equal(operator(*positional, **named).numpy(), golden(operands).out)


@pytest.mark.parametrize("name", CASES)
def test_fake_tensors_get_the_shape_of_the_result(operator: Any, name: str) -> None:
    operands = make_case(name)
    positional, named = torch_arguments(operands)
    with torch._subclasses.FakeTensorMode() as mode:
        fakes = [mode.from_tensor(tensor) for tensor in positional]
        options = {k: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for k, v in named.items()}
        out = operator(*fakes, **options)
    assert (tuple(out.shape), out.dtype) == ((operands.batch, operands.problem.n), torch.float32)


def test_meta_tensors_get_the_shape_of_the_result(operator: Any) -> None:
    positional, named = torch_arguments(make_case("c16"), "meta")
    out = operator(*positional, **named)
    assert (out.device.type, tuple(out.shape)) == ("meta", (4, 66))


@pytest.mark.parametrize("name", ["w0", "c5", "c15", "c16"])
def test_opcheck_passes(operator: Any, name: str) -> None:
    operands = make_case(name)
    positional, named = with_bytes(operands) if name in ("c15", "c16") else torch_arguments(operands)
    found = torch.library.opcheck(operator, positional, named)
    assert set(found.values()) == {"SUCCESS"}
    assert {
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_aot_dispatch_dynamic",
    } <= set(found)


@pytest.mark.parametrize("name", ["m0", "c12", "c18_mxfp8"])
def test_opcheck_passes_with_fp8(operator: Any, name: str) -> None:
    # test_schema compares with allclose, which torch 2.13 lacks for FP8; it runs on the FP4 cases
    checks = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    positional, named = torch_arguments(make_case(name))
    before = [tensor.view(torch.uint8).clone() for tensor in positional]
    found = torch.library.opcheck(operator, positional, named, test_utils=checks)
    assert set(found.values()) == {"SUCCESS"}
    assert all(torch.equal(t.view(torch.uint8), b) for t, b in zip(positional, before, strict=True))


@pytest.mark.parametrize("name", ["c5", "c12", "c16"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_programs_give_the_same_bits(operator: Any, name: str, dynamic: bool) -> None:
    positional, named = torch_arguments(make_case(name))
    torch._dynamo.reset()

    def program(x: Any, w: Any, group_list: Any) -> Any:
        return operator(x, w, group_list, **named) * 2 + 1

    compiled = torch.compile(program, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    assert torch.equal(compiled(*positional), program(*positional))


def test_exported_programs_hold_the_operator(operator: Any) -> None:
    positional, named = torch_arguments(make_case("c12"))

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, w: Any, group_list: Any) -> Any:
            return operator(x, w, group_list, **named)

    exported = torch.export.export(Layer(), positional)
    targets = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert "gmmfr.grouped_matmul_finalize_routing.default" in targets
    assert torch.equal(exported.module()(*positional), operator(*positional, **named))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": torch.bfloat16}, "dtype: expected None or torch.float32, got torch.bfloat16"),
        ({"output_bs": -1}, "output_bs: expected rows of the output, or 0 for as many as x has, got -1"),
        ({"group_list_type": 5}, r"group_list_type: expected 0 \(running totals\) or 1 \(counts\), got 5"),
        ({"x_dtype": 999}, "x_dtype: 999 is no number of torch_npu for a format"),
    ],
)
def test_wrong_arguments_are_named(operator: Any, change: dict[str, Any], message: str) -> None:
    positional, named = torch_arguments(make_case("m0"))
    with pytest.raises(ValueError, match=message):
        operator(*positional, **{**named, **change})


def test_wrong_ranks_are_refused_while_tracing_too(operator: Any) -> None:
    positional, named = torch_arguments(make_case("m0"))
    with pytest.raises(ValueError, match="x, w: expected 2 and 3 dimensions, got 2 and 2"):
        operator(positional[0], positional[1][0], positional[2], **named)
    with (
        torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True),
        pytest.raises(ValueError, match="got 2 and 2"),
    ):
        operator(positional[0], positional[1][0], positional[2], **named)
