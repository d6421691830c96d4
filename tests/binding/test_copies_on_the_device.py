"""Executors of copies and of zeroing, as torch_npu makes them: counted while they live, and destroyed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from subprocess import run
from typing import Any

import pytest

import aclnn_bindings
from aclnn_bindings.headers import SIMULATOR_LIBRARY

Live = Callable[[], dict[str, int]]


@pytest.fixture
def zeroing() -> Iterator[Callable[[], ctypes.c_void_p]]:
    """Phase 1 of aclnnInplaceZero on a descriptor that lives as long as the test."""
    library = ctypes.CDLL(aclnn_bindings.simulator().path)
    library.aclCreateTensor.restype = ctypes.c_void_p
    dims = (ctypes.c_int64 * 1)(4)
    one = ctypes.c_uint64(1)
    with aclnn_bindings.simulator().runtime.bind():
        tensor = ctypes.c_void_p(
            library.aclCreateTensor(dims, one, 0, None, ctypes.c_int64(0), 2, dims, one, None)
        )

        def phase_one() -> ctypes.c_void_p:
            size, executor = ctypes.c_uint64(), ctypes.c_void_p()
            status = library.aclnnInplaceZeroGetWorkspaceSize(
                tensor, ctypes.byref(size), ctypes.byref(executor)
            )
            assert status == 0
            return executor

        yield phase_one
        assert library.aclDestroyTensor(tensor) == 0


def test_an_unrun_executor_is_counted_and_can_be_destroyed(zeroing: Any, live: Live) -> None:
    before = live()["liveExecutors"]
    executor = zeroing()
    assert live()["liveExecutors"] == before + 1
    destroy = ctypes.CDLL(aclnn_bindings.simulator().path).aclDestroyAclOpExecutor
    assert destroy(executor) == 0
    assert live()["liveExecutors"] == before
    assert destroy(executor) != 0


PROGRAM = """
import ctypes
library = ctypes.CDLL({path!r})
library.aclCreateTensor.restype = ctypes.c_void_p
library.aclGetRecentErrMsg.restype = ctypes.c_char_p
assert library.aclInit(None) == 0 and library.aclrtSetDevice(0) == 0
dims, one = (ctypes.c_int64 * 1)(4), ctypes.c_uint64(1)
tensor = ctypes.c_void_p(library.aclCreateTensor(dims, one, 0, None, ctypes.c_int64(0), 2, dims, one, None))
size, executor = ctypes.c_uint64(), ctypes.c_void_p()
assert library.aclnnInplaceZeroGetWorkspaceSize(tensor, ctypes.byref(size), ctypes.byref(executor)) == 0
assert library.aclDestroyTensor(tensor) == 0
library.aclrtResetDevice(0)
library.gmmfrSimSetChecks(True)
library.aclFinalize()
print(library.aclGetRecentErrMsg().decode())
"""


def test_the_leak_report_lists_an_unrun_executor() -> None:
    program = PROGRAM.format(path=str(SIMULATOR_LIBRARY))
    done = run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "1 objects are still alive" in done.stdout
    assert "aclOpExecutor of a copy" in done.stdout
    assert "made by aclnnInplaceZeroGetWorkspaceSize" in done.stdout
