"""NPU tensors as arguments of the binding, on the simulated device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.needs_torch_npu

DEVICES = ["Ascend950PR_9579", "Ascend910B2"]


@pytest.fixture(scope="module", params=DEVICES)
def seen(request: pytest.FixtureRequest, simulated: Callable[..., Any]) -> Any:
    return simulated("npu_tensors.py", soc=request.param)


@pytest.mark.parametrize("way", ["plan", "bound out", "out given", "side stream", "run", "backend"])
def test_results_are_right(seen: Any, way: str) -> None:
    assert seen[way] is True


def test_every_result_of_a_plan_is_a_tensor_of_its_own(seen: Any) -> None:
    assert seen["results of their own"] is True


def test_a_bound_tensor_is_used_by_the_next_run(seen: Any) -> None:
    assert seen["bound zeros"] is True


@pytest.mark.parametrize(
    "way", ["again", "again, out given", "again, with an offset", "again, on a side stream"]
)
def test_repeated_calls_are_right_and_keep_x1(seen: Any, way: str) -> None:
    assert seen[way] == [True, [True] * 3]


def test_only_the_atlas_kernel_consumes_x1_when_it_may(seen: Any) -> None:
    kept = "910" not in seen["soc"]
    assert seen["again, x1 consumed"] == [True, [kept] * 3]


def test_repeated_calls_find_their_device_from_any_thread(seen: Any) -> None:
    assert seen["again, from another device"] == [True, 1]
    assert seen["again, in threads"] == [True] * 8


def test_host_and_device_arguments_mix(seen: Any) -> None:
    assert seen["mixed"] == ["npu:0", True]


def test_the_tensors_device_is_used_and_the_current_one_kept(seen: Any) -> None:
    assert seen["other device"] == ["npu:1", True, 0]


def test_operands_keep_the_tensors_beside_their_copies(seen: Any) -> None:
    assert seen["kept"] is True
    assert seen["on device"] is True


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("update", "logit: update copies from the host; use device memory in place with bind()"),
        ("bind host", "logit: bind takes device memory; give host data with update()"),
        (
            "negated",
            "logit: expected values as they lie in memory, got a view that negates them; "
            "pass tensor.resolve_neg()",
        ),
        ("two devices", "tensors: expected all NPU tensors on one device, got npu:0, npu:1"),
    ],
)
def test_what_cannot_be_is_refused(seen: Any, way: str, message: str) -> None:
    assert seen[way] == message


def test_the_aclnn_backend_leaves_the_callers_x1_as_it_was(seen: Any) -> None:
    assert seen["backend keeps x1"] is True


def test_a_tensor_of_another_layout_than_the_problem_is_refused(seen: Any) -> None:
    assert seen["bind other shape"].startswith(
        "logit: the tensor is float32 ND [4], the call says float32 ND [8]"
    )
    assert "strides [1, 8]" in seen["described otherwise"]
    assert "describe the call with Problem.from_arrays and the same tensors" in seen["described otherwise"]
