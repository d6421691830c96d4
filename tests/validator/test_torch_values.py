"""Values in torch tensors: judged like the same values in arrays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reference.problem import Problem, ProblemError
from reference.validator import validate

torch = pytest.importorskip("torch")

K, N, E = 256, 128, 2


def rules(problem: Problem, values: dict[str, Any]) -> set[str]:
    return {violation.rule for violation in validate(problem, values).violations}


def test_tensors_of_a_w4a8_call(calls: SimpleNamespace) -> None:
    """1.0 is 0x3f800000; one scale is -2.0 (0xc0000000), the bias 0, one logit NaN, one row outside out."""
    problem = calls.w4a8(m=4, k=K, n=N, e=E, batch=2, shared=1)
    scale = torch.full((E, 1, N), 0x3F800000, dtype=torch.int64)
    values = {
        "scale": scale,
        "bias": torch.ones((E, N)),
        "pertoken_scale": torch.ones(4),
        "group_list": torch.tensor([2, 2]),
        "row_index": torch.tensor([0, 1, 0, 1]),
        "logit": torch.ones(4),
        "shared_input": torch.zeros((1, N), dtype=torch.bfloat16),
    }
    legal = rules(problem, {})
    assert rules(problem, values) == legal
    scale[1, 0, 3] = 0xC0000000
    values["bias"] = torch.zeros((E, N), requires_grad=True)
    values["logit"] = torch.tensor([1.0, float("nan"), 1.0, 1.0])
    values["row_index"] = torch.tensor([0, 1, 2, 1])
    broken = {"scale-decoded", "bias-zero", "logit-finite", "row-index-range"}
    assert rules(problem, values) == legal | broken


def test_tensors_of_an_mx_call(calls: SimpleNamespace) -> None:
    """E8M0 as torch's own dtype and as bytes; 255 is NaN."""
    problem = calls.mx(m=4, k=96, n=3, batch=2)
    codes = torch.full((2, 2, 3, 2), 127, dtype=torch.uint8)
    rows = torch.full((4, 2, 2), 127, dtype=torch.uint8)
    values = {"scale": codes.view(torch.float8_e8m0fnu), "pertoken_scale": rows}
    assert rules(problem, values) == rules(problem, {})
    codes[1, 0, 0, 0] = rows[2, 0, 1] = 255
    found = [violation for violation in validate(problem, values).violations if violation.rule == "e8m0-nan"]
    assert [violation.argument for violation in found] == ["scale", "pertoken_scale"]


def test_a_tensor_without_data_is_named(calls: SimpleNamespace) -> None:
    with pytest.raises(ProblemError, match="bias: expected a tensor with data, got one on device meta"):
        validate(calls.w4a8(), {"bias": torch.zeros((E, N), device="meta")})
