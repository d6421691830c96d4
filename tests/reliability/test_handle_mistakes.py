"""Mistakes with handles: tensors, int arrays, executors, streams, events, and the addresses of a repeatable
executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from aclnn_bindings._acl import ffi


@dataclass(frozen=True)
class Mistake:
    """One mistake: how it is made, the status and text that it gets, the status with the checks off."""

    make: Callable[[Any], int]
    code: int
    text: str
    off: int


def destroyed_twice(noun: str) -> Callable[[Any], int]:
    """Make one object and destroy it twice."""

    def make(call: Any) -> int:
        f = call.f
        if noun == "tensor":
            call.describe("logit")
            handle, destroy = call.tensors.pop("logit"), f.aclDestroyTensor
        elif noun == "int array":
            handle, destroy = f.aclCreateIntArray(ffi.new("int64_t[]", [1]), 1), f.aclDestroyIntArray
        elif noun == "executor":
            call.phase_one()
            handle, destroy = call.executor, f.aclDestroyAclOpExecutor
        elif noun == "stream":
            handle, destroy = call.new_stream(), f.aclrtDestroyStream
        else:
            cell = ffi.new("aclrtEvent *")
            f.aclrtCreateEvent(cell)
            handle, destroy = cell[0], f.aclrtDestroyEvent
        assert destroy(handle) == 0
        return int(destroy(handle))

    return make


def tensor_destroyed_before_phase_one(call: Any) -> int:
    call.f.aclDestroyTensor(call.tensors["logit"])
    return call.phase_one()


def tensor_destroyed_between_the_phases(call: Any) -> int:
    call.phase_one()
    workspace = call.allocate(call.size[0])
    call.f.aclDestroyTensor(call.tensors["out"])
    return call.execute(workspace)


def int_array_destroyed_before_phase_one(call: Any) -> int:
    call.tuning = call.f.aclCreateIntArray(ffi.new("int64_t[]", [4]), 1)
    call.f.aclDestroyIntArray(call.tuning)
    status = call.phase_one()
    call.tuning = ffi.NULL
    return status


def tensor_given_as_int_array(call: Any) -> int:
    call.tuning = ffi.cast("aclIntArray *", call.tensors["x1"])
    status = call.phase_one()
    call.tuning = ffi.NULL
    return status


def host_pointer_given_as_tensor(call: Any) -> int:
    call.f.aclDestroyTensor(call.tensors["logit"])
    call.host = ffi.new("char[]", 64)
    call.tensors["logit"] = ffi.cast("aclTensor *", call.host)
    return call.phase_one()


def executor_run_twice(call: Any) -> int:
    assert call.run() == 0
    return call.execute()


def executor_run_after_its_end(call: Any) -> int:
    call.phase_one()
    call.f.aclDestroyAclOpExecutor(call.executor)
    return call.execute()


def executor_destroyed_after_its_run(call: Any) -> int:
    assert call.run() == 0
    return int(call.f.aclDestroyAclOpExecutor(call.executor))


def executor_that_is_null(call: Any) -> int:
    return int(call.f.aclnnGroupedMatmulFinalizeRoutingV3(ffi.NULL, 0, ffi.NULL, call.stream))


def null_executor_destroyed(call: Any) -> int:
    return int(call.f.aclDestroyAclOpExecutor(ffi.NULL))


def executor_made_repeatable_after_its_run(call: Any) -> int:
    assert call.run() == 0
    return int(call.f.aclSetAclOpExecutorRepeatable(call.executor))


def executor_from_the_cache_made_repeatable(call: Any) -> int:
    assert call.run() == 0
    call.phase_one()
    return int(call.f.aclSetAclOpExecutorRepeatable(call.executor))


def repeatable(call: Any) -> None:
    call.phase_one()
    assert call.f.aclSetAclOpExecutorRepeatable(call.executor) == 0
    call.workspace = call.allocate(call.size[0])
    assert call.execute() == 0
    assert call.synchronize() == 0


def repeatable_with_another_shape(call: Any) -> int:
    """A new descriptor for x1, of half the rows: the executor keeps the shape of phase 1."""
    repeatable(call)
    half = call.f.aclCreateTensor(
        ffi.new("int64_t[]", [4, 64]),
        2,
        36,
        ffi.NULL,
        0,
        2,
        ffi.new("int64_t[]", [4, 64]),
        2,
        call.memory["x1"],
    )
    status = call.f.aclSetInputTensorAddr(call.executor, 0, half, call.memory["x1"])
    call.last = call.message()
    call.f.aclDestroyTensor(half)
    return int(status)


def repeatable_with_smaller_memory(call: Any) -> int:
    """The address of memory that holds half the rows."""
    repeatable(call)
    half = call.allocate(4 * 64)
    assert call.f.aclSetInputTensorAddr(call.executor, 0, call.tensors["x1"], half) == 0
    return call.execute() or call.synchronize()


def repeatable_whose_tensor_is_gone(call: Any) -> int:
    repeatable(call)
    call.f.aclDestroyTensor(call.tensors["x1"])
    return call.execute()


def address_for_a_spent_executor(call: Any) -> int:
    assert call.run() == 0
    return int(call.f.aclSetInputTensorAddr(call.executor, 0, call.tensors["x1"], call.memory["x1"]))


def stream_that_is_destroyed(call: Any) -> int:
    call.phase_one()
    workspace, other = call.allocate(call.size[0]), call.new_stream()
    call.f.aclrtDestroyStream(other)
    kept, call.stream = call.stream, other
    status = call.execute(workspace)
    call.stream = kept
    return status


def event_given_as_stream(call: Any) -> int:
    cell = ffi.new("aclrtEvent *")
    call.f.aclrtCreateEvent(cell)
    status = call.f.aclrtSynchronizeStream(cell[0])
    call.last = call.message()
    call.f.aclrtDestroyEvent(cell[0])
    return int(status)


GONE = "0x… was destroyed or used up before"
PHASE_1 = "EZ1001: aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize:"
PHASE_2 = "aclnnGroupedMatmulFinalizeRoutingV3:"

MISTAKES = {
    "tensor destroyed twice": Mistake(
        destroyed_twice("tensor"), 161002, f"EZ1001: aclDestroyTensor: aclTensor {GONE}", 161002
    ),
    "int array destroyed twice": Mistake(
        destroyed_twice("int array"), 161002, f"EZ1001: aclDestroyIntArray: aclIntArray {GONE}", 161002
    ),
    "executor destroyed twice": Mistake(
        destroyed_twice("executor"), 561000, f"EZ9999: aclDestroyAclOpExecutor: aclOpExecutor {GONE}", 561000
    ),
    "stream destroyed twice": Mistake(
        destroyed_twice("stream"), 107017, f"EZ1001: aclrtDestroyStream: stream {GONE}", 107017
    ),
    "event destroyed twice": Mistake(
        destroyed_twice("event"), 107017, f"EZ1001: aclrtDestroyEvent: event {GONE}", 107017
    ),
    "tensor destroyed before phase 1": Mistake(
        tensor_destroyed_before_phase_one, 161002, f"{PHASE_1} logit: aclTensor {GONE}", 161002
    ),
    "tensor destroyed between the phases": Mistake(
        tensor_destroyed_between_the_phases,
        561000,
        f"EZ9999: {PHASE_2} out: its aclTensor was destroyed between phase 1 and phase 2",
        561000,
    ),
    "int array destroyed before phase 1": Mistake(
        int_array_destroyed_before_phase_one, 161002, f"{PHASE_1} tuningConfig: aclIntArray {GONE}", 161002
    ),
    "tensor given as int array": Mistake(
        tensor_given_as_int_array,
        161002,
        f"{PHASE_1} tuningConfig: 0x… is no aclIntArray, it is a handle of kind aclTensor",
        161002,
    ),
    "host pointer given as tensor": Mistake(
        host_pointer_given_as_tensor,
        161002,
        f"{PHASE_1} logit: 0x… is no aclTensor of this runtime",
        161002,
    ),
    "single-use executor run twice": Mistake(
        executor_run_twice, 561000, f"EZ9999: {PHASE_2} aclOpExecutor {GONE}", 561000
    ),
    "executor run after it was destroyed": Mistake(
        executor_run_after_its_end, 561000, f"EZ9999: {PHASE_2} aclOpExecutor {GONE}", 561000
    ),
    "executor destroyed after its run": Mistake(
        executor_destroyed_after_its_run,
        561000,
        f"EZ9999: aclDestroyAclOpExecutor: aclOpExecutor {GONE}",
        561000,
    ),
    "executor that is NULL": Mistake(
        executor_that_is_null, 161001, f"EZ1001: {PHASE_2} executor is NULL", 161001
    ),
    "executor destroyed that is NULL": Mistake(
        null_executor_destroyed, 561103, "EZ9999: aclDestroyAclOpExecutor: executor is NULL", 561103
    ),
    "executor made repeatable after its run": Mistake(
        executor_made_repeatable_after_its_run,
        561000,
        f"EZ9999: aclSetAclOpExecutorRepeatable: aclOpExecutor {GONE}",
        561000,
    ),
    "executor from the phase-1 cache made repeatable": Mistake(
        executor_from_the_cache_made_repeatable,
        561000,
        "EZ9999: aclSetAclOpExecutorRepeatable: an executor that comes from the phase-1 cache cannot be "
        "repeated; run it once or destroy it",
        561000,
    ),
    "repeatable executor with another shape": Mistake(
        repeatable_with_another_shape,
        161002,
        "EZ1001: aclSetInputTensorAddr: the tensor is none that phase 1 of this executor got, so its address "
        "would never be read",
        0,
    ),
    "repeatable executor with smaller memory": Mistake(
        repeatable_with_smaller_memory,
        507015,
        f"EZ9999: aclrtSynchronizeStream: {PHASE_2} x1 with shape (8, 64) and dtype "
        "FLOAT8_E4M3FN: 512 bytes at "
        "0x… pass the end of their allocation of 256 bytes (made by aclrtMalloc (call …)) by 256",
        507015,
    ),
    "repeatable executor whose tensor was destroyed": Mistake(
        repeatable_whose_tensor_is_gone,
        561000,
        f"EZ9999: {PHASE_2} x1: its aclTensor was destroyed between phase 1 and phase 2",
        561000,
    ),
    "new address for a spent executor": Mistake(
        address_for_a_spent_executor, 561000, f"EZ9999: aclSetInputTensorAddr: aclOpExecutor {GONE}", 561000
    ),
    "stream that was destroyed": Mistake(
        stream_that_is_destroyed, 361001, f"EZ9903: {PHASE_2} stream: stream {GONE}", 361001
    ),
    "event given as stream": Mistake(
        event_given_as_stream,
        107017,
        "EZ1001: aclrtSynchronizeStream: 0x… is no stream, it is a handle of kind event",
        107017,
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_checking_device_names_object_call_and_rule(
    name: str, raw: Callable[..., Any], documented: Callable[[str], bool]
) -> None:
    mistake, call = MISTAKES[name], raw()
    status = mistake.make(call)
    message = getattr(call, "last", None) or call.message()
    assert (status, message) == (mistake.code, mistake.text)
    assert documented(f"| {name} | {mistake.code} | {mistake.text} |")


@pytest.mark.parametrize("name", MISTAKES)
def test_without_checks_the_process_goes_on(
    name: str, raw: Callable[..., Any], checks: Callable[[bool], None]
) -> None:
    checks(False)
    assert MISTAKES[name].make(raw()) == MISTAKES[name].off
    assert raw().run() == 0


def test_destroying_null_is_allowed_where_the_vendor_allows_it(raw: Callable[..., Any]) -> None:
    call = raw()
    assert call.f.aclDestroyTensor(ffi.NULL) == 0
    assert call.f.aclDestroyIntArray(ffi.NULL) == 0


def test_a_repeatable_executor_runs_again_with_other_memory_of_the_same_shape(
    raw: Callable[..., Any],
) -> None:
    call = raw()
    repeatable(call)
    first = call.read("out")
    copy = call.allocate(8 * 64)
    image = np.zeros(8 * 64, np.uint8)
    assert call.f.aclrtMemcpy(copy, 512, ffi.from_buffer(image), 512, 1) == 0
    assert call.f.aclSetInputTensorAddr(call.executor, 0, call.tensors["x1"], copy) == 0
    assert call.execute() == 0
    assert call.synchronize() == 0
    assert np.any(np.frombuffer(first, np.float32))
    assert not np.any(np.frombuffer(call.read("out"), np.float32))


def test_tensors_may_go_once_the_kernel_is_queued(raw: Callable[..., Any]) -> None:
    call = raw()
    call.occupy()
    assert call.launch() == 0
    for tensor in call.tensors.values():
        assert call.f.aclDestroyTensor(tensor) == 0
    call.tensors.clear()
    assert call.synchronize() == 0
