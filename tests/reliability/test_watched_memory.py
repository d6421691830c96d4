"""Guard bytes beside every allocation, and poison in memory that is fresh or freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclnn_bindings._acl import ffi, lib


@pytest.mark.parametrize(
    ("shift", "where"), [(-1, "before the start"), (0, "after the end"), (63, "after the end")]
)
def test_bytes_beside_an_allocation_are_watched(
    shift: int, where: str, raw: Callable[..., Any], documented: Callable[[str], bool]
) -> None:
    call = raw()
    block = call.allocate(64)
    edge = ffi.cast("char *", block) + (shift if shift < 0 else 64 + shift)
    kept, edge[0] = edge[0], b"\0"
    finding = (
        f"bytes {where} of the allocation 0x… (64 bytes, made by aclrtMalloc (call …)) were written over"
    )
    assert call.synchronize() == 507053
    assert call.message() == f"EZ9999: aclrtSynchronizeStream: {finding}"
    assert call.free(block) == 507053
    assert call.message() == f"EZ9999: aclrtFree: {finding}"
    assert kept != b"\0"
    assert documented(finding)


def test_fresh_memory_is_poisoned(raw: Callable[..., Any]) -> None:
    call = raw()
    block, host = call.allocate(4096), ffi.new("char[]", 4096)
    assert call.f.aclrtMemcpy(host, 4096, block, 4096, lib.ACL_MEMCPY_DEVICE_TO_HOST) == 0
    assert bytes(ffi.buffer(host)) == b"\xff" * 4096


def test_a_call_whose_inputs_were_never_filled_shows_it(raw: Callable[..., Any]) -> None:
    call = raw()
    call.memory["x1"] = call.allocate(8 * 64)
    call.describe("x1")
    assert call.run() == 0
    out = np.frombuffer(call.read("out"), np.float32)
    assert np.isnan(out).all()  # 0xFF is NaN in E4M3FN


def test_freed_memory_is_poisoned(python: Callable[..., Any]) -> None:
    code = """
import ctypes
from aclnn_bindings import simulator
from aclnn_bindings._acl import ffi, lib
library = simulator()
with library.runtime.bind():
    cell = ffi.new("void **")
    assert library.functions.aclrtMalloc(cell, 4096, lib.ACL_MEM_MALLOC_HUGE_FIRST) == 0
    assert library.functions.aclrtMemset(cell[0], 4096, 7, 4096) == 0
    address = int(ffi.cast("uintptr_t", cell[0]))
    before = ctypes.string_at(address + 1024, 1024)
    assert library.functions.aclrtFree(cell[0]) == 0
    print(before == bytes([7]) * 1024, ctypes.string_at(address + 1024, 1024) == bytes([255]) * 1024)
"""
    done = python(code)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
