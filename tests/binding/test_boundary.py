"""The C boundary: 64-bit sizes and handles, bool, float and int64 arrive as they were sent; one message per
error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclnn_bindings
from aclnn_bindings import Plan
from reference.operands import Operands
from reference.problem import Attributes, Problem

FakeFactory = Callable[..., Any]
HUGE_HANDLE = 0x123456789ABCDEF0


def test_sizes_and_handles_above_32_bits_survive(compile_fake: FakeFactory, small_mx: Operands) -> None:
    fake = compile_fake()
    with Plan(small_mx.problem, small_mx.arrays, library=aclnn_bindings.find_library(fake.path)) as plan:
        plan.execute()
        assert plan.workspace_size == 2**33 + 64
    record = fake.record
    assert record.workspace_size == 2**33 + 64
    assert record.workspace == HUGE_HANDLE + 64
    assert record.executor == HUGE_HANDLE + 32
    assert record.stream == HUGE_HANDLE + 16


@pytest.mark.parametrize("flag", [False, True])
def test_scalars_arrive_with_their_own_types(
    compile_fake: FakeFactory, small_mx: Operands, flag: bool
) -> None:
    fake = compile_fake()
    attributes = Attributes(
        dtype=2**40 + 3,
        shared_input_weight=1 / 3,
        shared_input_offset=-(2**62) - 1,
        transpose_x1=flag,
        transpose_x2=not flag,
        group_list_type=2**35,
    )
    problem = Problem(small_mx.problem.platform, small_mx.problem.arguments, attributes)
    with Plan(problem, small_mx.arrays, library=aclnn_bindings.find_library(fake.path), validate="off"):
        record = fake.record
        assert record.dtype == 2**40 + 3
        assert record.weight == np.float32(1 / 3)
        assert record.offset == -(2**62) - 1
        assert (record.transpose_x1, record.transpose_x2) == (flag, not flag)
        assert record.group_list_type == 2**35


def test_an_ordinary_executor_is_left_to_phase_two(compile_fake: FakeFactory, small_mx: Operands) -> None:
    fake = compile_fake()
    with Plan(small_mx.problem, small_mx.arrays, library=aclnn_bindings.find_library(fake.path)) as plan:
        assert not plan.repeatable
        plan.execute()
    assert fake.record.executors_destroyed == 0
    assert fake.record.tensors_created == fake.record.tensors_destroyed > 0


def test_an_executor_that_never_ran_is_destroyed(compile_fake: FakeFactory, small_mx: Operands) -> None:
    fake = compile_fake()
    Plan(small_mx.problem, small_mx.arrays, library=aclnn_bindings.find_library(fake.path)).close()
    assert fake.record.executors_destroyed == 1


def test_the_exception_carries_code_name_message_and_call(
    compile_fake: FakeFactory, small_mx: Operands
) -> None:
    fake = compile_fake()
    library = aclnn_bindings.find_library(fake.path)
    fake.fail_next(161002, "EZ1001: scale should be E8M0.\n")
    with pytest.raises(aclnn_bindings.RejectedError) as caught:
        Plan(small_mx.problem, small_mx.arrays, library=library)
    error = caught.value
    assert (error.code, error.name) == (161002, "ACLNN_ERR_PARAM_INVALID")
    assert error.message == "EZ1001: scale should be E8M0."
    assert error.what == "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize"
    assert fake.record.messages_read == 1
    for part in ("161002", "ACLNN_ERR_PARAM_INVALID", "scale should be E8M0", error.what):
        assert part in str(error)


@pytest.mark.parametrize("code", [161001, 161002, 561001, 561002, 561103])
def test_a_refusal_that_the_rules_do_not_know_says_so(
    compile_fake: FakeFactory, small_mx: Operands, code: int
) -> None:
    fake = compile_fake()
    library = aclnn_bindings.find_library(fake.path)
    fake.fail_next(code, None)
    with pytest.raises(aclnn_bindings.RejectedError) as caught:
        Plan(small_mx.problem, small_mx.arrays, library=library)
    assert caught.value.message is None
    assert "library: no message" in str(caught.value)
    assert (
        "The rules of this project accept this call: please report it, with the bundle that "
        'reference.write_bundle("refused.safetensors", operands) saves, or with this problem: {"platform": '
        '"ascend950"'
    ) in str(caught.value)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (361001, "The device, its driver or its link failed"),
        (561000, "came from the phase-1 cache"),
        (561003, "The kernel package of this SoC is missing"),
        (561101, "Host memory, or the library was not initialised"),
        (561102, "the unique executor was not released"),
        (561107, "ASCEND_OPP_PATH is not set or does not exist"),
        (561108, "reinstall ops and toolkit of one version"),
        (561112, "reinstall ops and toolkit of one version"),
        (561201, "A handle was used after it was destroyed"),
    ],
)
def test_a_failure_that_is_not_about_the_arguments_gives_its_cause_and_asks_for_no_report(
    compile_fake: FakeFactory, small_mx: Operands, code: int, cause: str
) -> None:
    fake = compile_fake()
    library = aclnn_bindings.find_library(fake.path)
    fake.fail_next(code, "said the library")
    with pytest.raises(aclnn_bindings.AclError) as caught:
        Plan(small_mx.problem, small_mx.arrays, library=library)
    assert caught.value.note is None
    assert str(caught.value).splitlines()[-1].startswith("usual cause: ")
    assert cause in str(caught.value)


def test_nothing_is_left_after_a_refused_phase_one(compile_fake: FakeFactory, small_mx: Operands) -> None:
    fake = compile_fake()
    library = aclnn_bindings.find_library(fake.path)
    fake.fail_next(161001, None)
    with pytest.raises(aclnn_bindings.RejectedError):
        Plan(small_mx.problem, small_mx.arrays, library=library)
    assert fake.record.tensors_created == fake.record.tensors_destroyed > 0
    assert fake.record.executors_destroyed == 0
    assert library.memory_stats().in_use == 0


def test_unknown_codes_keep_their_number(compile_fake: FakeFactory) -> None:
    library = aclnn_bindings.find_library(compile_fake().path)
    with pytest.raises(aclnn_bindings.AclError, match="something returned 424242 UNKNOWN_STATUS_424242"):
        library.check(424242, "something")


def test_check_lets_success_pass(compile_fake: FakeFactory) -> None:
    library = aclnn_bindings.find_library(compile_fake().path)
    library.check(0, "anything")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (161001, aclnn_bindings.RejectedError),
        (561103, aclnn_bindings.RejectedError),
        (207001, aclnn_bindings.OutOfDeviceMemoryError),
        (507046, aclnn_bindings.SynchronizeTimeoutError),
        (507035, aclnn_bindings.DeviceFaultError),
        (100000, aclnn_bindings.AclError),
    ],
)
def test_codes_become_exceptions_of_their_kind(
    compile_fake: FakeFactory, code: int, kind: type[Exception]
) -> None:
    library = aclnn_bindings.find_library(compile_fake().path)
    with pytest.raises(kind) as caught:
        library.check(code, "a call")
    assert type(caught.value) is kind


def test_the_kinds_are_builtin_errors_too() -> None:
    assert issubclass(aclnn_bindings.OutOfDeviceMemoryError, MemoryError)
    assert issubclass(aclnn_bindings.SynchronizeTimeoutError, TimeoutError)
    assert issubclass(aclnn_bindings.RejectedError, ValueError)
    assert issubclass(aclnn_bindings.LibraryNotFoundError, OSError)
