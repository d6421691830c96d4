"""What is still alive at the last aclFinalize is listed, each thing with the call that made it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

START = """
from aclnn_bindings import simulator
from aclnn_bindings._acl import ffi, lib
library = simulator()
f = library.functions
assert f.aclInit(ffi.NULL) == 0 and f.aclrtSetDevice(0) == 0
pointer, stream, event = ffi.new("void **"), ffi.new("aclrtStream *"), ffi.new("aclrtEvent *")
dims = ffi.new("int64_t[]", [4])
"""
END = """
print(f.aclFinalize())
print(library.recent_message())
"""
MALLOC = "assert f.aclrtMalloc(pointer, 4096, 0) == 0"
MALLOC_HOST = "assert f.aclrtMallocHost(pointer, 256) == 0"
TENSOR = "tensor = f.aclCreateTensor(dims, 1, 0, ffi.NULL, 0, 2, dims, 1, ffi.NULL)"
ARRAY = "array = f.aclCreateIntArray(dims, 1)"
STREAM = "assert f.aclrtCreateStream(stream) == 0"
EVENT = "assert f.aclrtCreateEvent(event) == 0"

LEAKS = {
    "device memory": (MALLOC, "device memory 0x… of 4096 bytes made by aclrtMalloc (call …)"),
    "host memory": (MALLOC_HOST, "host memory 0x… of 256 bytes made by aclrtMallocHost (call …)"),
    "tensor": (TENSOR, "aclTensor 0x… made by aclCreateTensor (call …)"),
    "int array": (ARRAY, "aclIntArray 0x… made by aclCreateIntArray (call …)"),
    "stream": (STREAM, "stream 0x… made by aclrtCreateStream (call …)"),
    "event": (EVENT, "event 0x… made by aclrtCreateEvent (call …)"),
}
FREES = "assert f.aclrtFree(pointer[0]) == 0", "assert f.aclDestroyTensor(tensor) == 0"
HEADER = "EZ1001: aclFinalize: 1 objects are still alive:"


def plain(text: str) -> str:
    """Without addresses and numbers of calls."""
    return re.sub(r"\(call \d+ of the process\)", "(call …)", re.sub(r"0x[0-9a-f]+", "0x…", text))


@pytest.mark.parametrize("kind", LEAKS)
def test_each_kind_of_leak_is_named_with_the_call_that_made_it(
    kind: str, python: Callable[..., Any], documented: Callable[[str], bool]
) -> None:
    code, line = LEAKS[kind]
    done = python(START + code + END)
    assert plain(done.stdout) == f"148051\n{HEADER}\n  {line}\n", done.stderr
    assert documented(f"| {kind} left at aclFinalize | 148051 | {HEADER} {line} |")


def test_an_executor_that_was_never_run_is_a_leak(python: Callable[..., Any]) -> None:
    code = """
from reference.cases import Case
from aclnn_bindings import simulator
from aclnn_bindings.handles import Executor
from aclnn_bindings.phase_one import call_phase_one, scalars_of
from aclnn_bindings.tensors import DescriptorTable, Tensors, device_specs
from aclnn_bindings._acl import ffi
problem = Case("leak", "mxfp8", 8, 64, 32, 2, 4).make().problem
library = simulator("Ascend950PR_9579")
f = library.functions
with library.runtime.bind() as context:
    pass
specs = device_specs(problem)
with Tensors(context, DescriptorTable(specs), [0] * 13) as tensors:
    executor, size = ffi.new("aclOpExecutor **"), ffi.new("uint64_t *")
    assert call_phase_one(library, tensors, scalars_of(problem.attributes), ffi.NULL, size, executor) == 0
print(f.aclFinalize())
print(library.recent_message())
library.runtime.ended = True
"""
    done = python(code)
    maker = "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize"
    assert plain(done.stdout) == f"148051\n{HEADER}\n  aclOpExecutor 0x… made by {maker} (call …)\n", (
        done.stderr
    )


def test_all_leaks_come_in_one_list_and_at_most_twenty(python: Callable[..., Any]) -> None:
    done = python(START + f"for _ in range(25):\n    {MALLOC}\n" + TENSOR + END)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["148051", HEADER.replace("1 objects", "26 objects")]
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == "  and 6 more"


def test_nothing_left_is_no_finding(python: Callable[..., Any]) -> None:
    done = python(START + MALLOC + "\n" + TENSOR + "\n" + "\n".join(FREES) + END)
    assert done.stdout == "0\nNone\n", done.stderr


def test_without_checks_finalise_says_nothing(python: Callable[..., Any]) -> None:
    done = python(START + MALLOC + END, GMMFR_SIM_CHECK="0")
    assert done.stdout == "0\nNone\n", done.stderr


def test_only_the_last_finalise_counts(python: Callable[..., Any]) -> None:
    code = START + "assert f.aclInit(ffi.NULL) == 0\n" + MALLOC + "\nassert f.aclFinalize() == 0" + END
    assert python(code).stdout.startswith("148051\n")
