"""Mistakes with memory: each is found with its argument, its call and the rule; none ends the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from aclnn_bindings._acl import ffi, lib

HOST_TO_DEVICE, DEVICE_TO_HOST = lib.ACL_MEMCPY_HOST_TO_DEVICE, lib.ACL_MEMCPY_DEVICE_TO_HOST


@dataclass(frozen=True)
class Mistake:
    """One mistake: how it is made, the status and text that it gets, the status with the checks off."""

    make: Callable[[Any], int]
    code: int
    text: str
    off: int | tuple[int, ...]


def host_address() -> Any:
    """An address of the host that was never device memory: a table in the extension's own data."""
    return ffi.cast("char *", (int(ffi.cast("uintptr_t", lib.gmmfr_names)) + 31) & -32)


def host_memory_as(name: str) -> Callable[[Any], int]:
    """Describe an argument with an address of the host."""

    def make(call: Any) -> int:
        call.describe(name, host_address())
        return call.run()

    return make


def freed_before_launch(name: str) -> Callable[[Any], int]:
    def make(call: Any) -> int:
        call.free(call.memory[name])
        return call.run()

    return make


def freed_while_queued(name: str) -> Callable[[Any], int]:
    """Free an argument's memory after the launch and before the kernel runs."""

    def make(call: Any) -> int:
        call.occupy()
        assert call.launch() == 0
        return call.free(call.workspace if name == "workspace" else call.memory[name]) or call.synchronize()

    return make


def run_after_the_free(name: str) -> Callable[[Any], int]:
    """The same, and what the wait for the kernel says."""

    def make(call: Any) -> int:
        freed_while_queued(name)(call)
        return call.synchronize()

    return make


def workspace_missing(call: Any) -> int:
    call.phase_one()
    return call.execute()


def workspace_too_small(call: Any) -> int:
    call.phase_one()
    return call.execute(call.allocate(call.size[0]), call.size[0] // 2)


def workspace_smaller_than_claimed(call: Any) -> int:
    call.phase_one()
    return call.execute(call.allocate(1024)) or call.synchronize()


def workspace_on_the_host(call: Any) -> int:
    call.phase_one()
    return call.execute(host_address()) or call.synchronize()


def workspace_freed_before(call: Any) -> int:
    call.phase_one()
    workspace = call.allocate(call.size[0])
    call.free(workspace)
    return call.execute(workspace) or call.synchronize()


def row_index_of_four_bytes(call: Any) -> int:
    """The mistake of a public sample: rows as 4-byte numbers under a descriptor of INT64."""
    call.place("row_index", np.zeros(8, np.float32))
    return call.run()


def misaligned(call: Any) -> int:
    call.memory["logit"] = call.allocate(64)
    call.describe("logit", ffi.cast("char *", call.memory["logit"]) + 4)
    return call.run()


def beyond_its_storage(call: Any) -> int:
    call.describe("x2", storage=(2, 64, 31))
    return call.run()


def offset_beyond_its_storage(call: Any) -> int:
    call.describe("logit", storage=(8,), offset=4)
    return call.run()


def negative_offset(call: Any) -> int:
    call.describe("logit", storage=(8,), offset=-1)
    return call.run()


def null_address(call: Any) -> int:
    call.describe("x1", ffi.NULL)
    return call.run()


def freed_twice(call: Any) -> int:
    block = call.allocate(64)
    call.free(block)
    return int(call.f.aclrtFree(block))


def freed_inside(call: Any) -> int:
    return int(call.f.aclrtFree(ffi.cast("char *", call.memory["x1"]) + 32))


def host_address_freed(call: Any) -> int:
    return int(call.f.aclrtFree(host_address()))


def copy_past_the_end(call: Any) -> int:
    host = ffi.new("char[]", 4096)
    return int(call.f.aclrtMemcpy(call.memory["x1"], 4096, host, 4096, HOST_TO_DEVICE))


def copy_into_what_the_device_adds(call: Any) -> int:
    """16 bytes more than asked for: within what the device rounds an allocation up to."""
    host = ffi.new("char[]", 48)
    return int(call.f.aclrtMemcpy(call.allocate(32), 48, host, 48, HOST_TO_DEVICE))


def device_address_as_host_address(call: Any) -> int:
    return int(call.f.aclrtMemcpy(call.memory["x1"], 64, call.memory["x2"], 64, HOST_TO_DEVICE))


def copy_larger_than_its_target(call: Any) -> int:
    host = ffi.new("char[]", 64)
    return int(call.f.aclrtMemcpy(call.memory["x1"], 32, host, 64, HOST_TO_DEVICE))


def host_memory_freed_under_a_queued_copy(call: Any) -> int:
    cell = ffi.new("void **")
    assert call.f.aclrtMallocHost(cell, 256) == 0
    call.occupy()
    assert call.f.aclrtMemcpyAsync(cell[0], 256, call.memory["x1"], 256, DEVICE_TO_HOST, call.stream) == 0
    assert call.f.aclrtFreeHost(cell[0]) == 0
    return call.synchronize()


def out_lies_in_an_input(call: Any) -> int:
    call.describe("out", call.memory["x2"])
    return call.run()


OPERATOR = "EZ1001: aclnnGroupedMatmulFinalizeRoutingV3:"
WAIT = "EZ9999: aclrtSynchronizeStream: aclnnGroupedMatmulFinalizeRoutingV3:"
WAIT_1 = WAIT.replace("EZ9999", "EZ1001")
FREE, COPY = "EZ9999: aclrtFree:", "EZ1001: aclrtMemcpy:"
FREED = "was freed by aclrtFree (call …); it was made by aclrtMalloc (call …)"
FOREIGN = "address 0x… lies in no live allocation of this runtime"
QUEUED = "of aclnnGroupedMatmulFinalizeRoutingV3 (call …)"
SYNCHRONISE = "synchronise the stream first (the memory is freed now)"
X1, LOGIT, ROWS = (
    "x1 with shape (8, 64) and dtype FLOAT8_E4M3FN",
    "logit with shape (8,) and dtype FLOAT",
    "rowIndex with shape (8,) and dtype INT64",
)

MISTAKES = {
    "host memory as x1": Mistake(host_memory_as("x1"), 507015, f"{WAIT} {X1}: {FOREIGN}", 507015),
    "host memory as out": Mistake(
        host_memory_as("out"), 507015, f"{WAIT} out with shape (4, 32) and dtype FLOAT: {FOREIGN}", 507015
    ),
    "input freed before the launch": Mistake(
        freed_before_launch("x1"), 507015, f"{WAIT} {X1}: address 0x… {FREED}", 507015
    ),
    "input freed while its kernel is queued": Mistake(
        freed_while_queued("logit"),
        207002,
        f"EZ9999: aclrtFree: memory at 0x… is freed while logit {QUEUED} may still read it: {SYNCHRONISE}",
        507015,
    ),
    "out freed while its kernel is queued": Mistake(
        freed_while_queued("out"),
        207002,
        f"EZ9999: aclrtFree: memory at 0x… is freed while out {QUEUED} may still write it: {SYNCHRONISE}",
        507015,
    ),
    "workspace freed while its kernel is queued": Mistake(
        freed_while_queued("workspace"),
        207002,
        f"EZ9999: aclrtFree: memory at 0x… is freed while workspace {QUEUED} may still write "
        f"it: {SYNCHRONISE}",
        507015,
    ),
    "kernel that runs after the free of its input": Mistake(
        run_after_the_free("logit"), 507015, f"{WAIT} {LOGIT}: address 0x… {FREED}", 0
    ),
    "workspace missing": Mistake(
        workspace_missing,
        161001,
        f"{OPERATOR} workspace is NULL, workspaceSize is 16777728; the executor is destroyed",
        161001,
    ),
    "workspace too small": Mistake(
        workspace_too_small,
        161002,
        f"{OPERATOR} workspaceSize: expected at least 16777728 as phase 1 told, got 8388864",
        161002,
    ),
    "workspace smaller than its size says": Mistake(
        workspace_smaller_than_claimed,
        507015,
        f"{WAIT} workspace: 16777728 bytes at 0x… pass the end of their allocation of 1024 bytes "
        "(made by aclrtMalloc (call …)) by 16776704",
        507015,
    ),
    "workspace on the host": Mistake(workspace_on_the_host, 507015, f"{WAIT} workspace: {FOREIGN}", 507015),
    "workspace freed before the launch": Mistake(
        workspace_freed_before, 507015, f"{WAIT} workspace: address 0x… {FREED}", 507015
    ),
    "row_index with elements of four bytes": Mistake(
        row_index_of_four_bytes,
        507015,
        f"{WAIT} {ROWS}: 64 bytes at 0x… pass the end of their allocation of 32 bytes "
        "(made by aclrtMalloc (call …)) by 32",
        (0, 507035),  # whatever lies behind the rows
    ),
    "misaligned address": Mistake(
        misaligned, 107008, f"{WAIT_1} logit: data address 0x… is not aligned to 32 bytes", 0
    ),
    "view beyond its storage": Mistake(
        beyond_its_storage,
        507015,
        f"{WAIT} x2: the view (2, 64, 32) with strides (2048, 32, 1) and offset 0 reaches "
        "elements 0 to 4095; "
        "its storage (2, 64, 31) has 3968",
        0,
    ),
    "offset beyond the storage": Mistake(
        offset_beyond_its_storage,
        507015,
        f"{WAIT} logit: the view (8,) with strides (1,) and offset 4 reaches elements 4 to 11; "
        "its storage (8,) has 8",
        0,
    ),
    "offset below the storage": Mistake(
        negative_offset,
        507015,
        f"{WAIT} logit: the view (8,) with strides (1,) and offset -1 reaches elements -1 to 6; "
        "its storage (8,) has 8",
        507015,
    ),
    "data address that is NULL": Mistake(
        null_address, 507015, f"{WAIT} x1: its data address is NULL", 507015
    ),
    "memory freed twice": Mistake(freed_twice, 107000, f"EZ1001: aclrtFree: address 0x… {FREED}", 107000),
    "address inside an allocation freed": Mistake(
        freed_inside,
        107000,
        "EZ1001: aclrtFree: address 0x… lies inside an allocation, it is not its start",
        107000,
    ),
    "host address freed": Mistake(host_address_freed, 107000, f"EZ1001: aclrtFree: {FOREIGN}", 107000),
    "copy past the end": Mistake(
        copy_past_the_end,
        107000,
        f"{COPY} dst: 4096 bytes at 0x… pass the end of their allocation of 512 bytes "
        "(made by aclrtMalloc (call …)) by 3584",
        107000,
    ),
    "copy into what the device adds to an allocation": Mistake(
        copy_into_what_the_device_adds,
        107000,
        f"{COPY} dst: 48 bytes at 0x… pass the end of their allocation of 32 bytes "
        "(made by aclrtMalloc (call …)) by 16",
        0,
    ),
    "device address given as host address": Mistake(
        device_address_as_host_address,
        107000,
        f"{COPY} src: 0x… is a device address, but the kind of the copy makes it a host address",
        107000,
    ),
    "copy larger than its target": Mistake(
        copy_larger_than_its_target, 107000, f"{COPY} count 64 is more than destMax 32", 107000
    ),
    "host memory freed under a queued copy": Mistake(
        host_memory_freed_under_a_queued_copy,
        107000,
        "EZ1001: aclrtSynchronizeStream: dst: address 0x… was freed by aclrtFreeHost (call "
        "…); it was made by "
        "aclrtMallocHost (call …)",
        107000,
    ),
    "out that lies in an input": Mistake(
        out_lies_in_an_input,
        561000,
        "EZ9999: aclnnGroupedMatmulFinalizeRoutingV3: out: the kernel writes 512 bytes at 0x…, which overlap "
        "4096 bytes of x2 at 0x…: give each memory of its own",
        0,
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_checking_device_names_object_call_and_rule(
    name: str, raw: Callable[..., Any], documented: Callable[[str], bool]
) -> None:
    mistake, call = MISTAKES[name], raw()
    status = mistake.make(call)
    assert (status, call.message()) == (mistake.code, mistake.text)
    assert documented(f"| {name} | {mistake.code} | {mistake.text} |")


@pytest.mark.parametrize("name", MISTAKES)
def test_without_checks_the_process_goes_on(
    name: str, raw: Callable[..., Any], checks: Callable[[bool], None]
) -> None:
    checks(False)
    call = raw()
    allowed = MISTAKES[name].off
    assert MISTAKES[name].make(call) in (allowed if isinstance(allowed, tuple) else (allowed,))
    assert raw().run() == 0
