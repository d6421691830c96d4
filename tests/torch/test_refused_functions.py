"""Functions that torch_npu needs to find and no simulated work calls: each fails with its name."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from aclnn_bindings.headers import SIMULATED_RUNTIME

NOT_SUPPORTED = 200001


@pytest.fixture(scope="module")
def runtime() -> Any:
    library = ctypes.CDLL(str(SIMULATED_RUNTIME))
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return library


@pytest.mark.parametrize(
    "name",
    [
        "MsprofRegisterCallback",
        "MsprofReportApi",
        "aclmdlInitDump",
        "aclrtBinaryLoadFromData",
        "aclrtMallocPhysical",
        "aclrtMapMem",
        "aclrtMemExportToShareableHandle",
        "aclrtProcessReport",
        "rtDevBinaryRegister",
        "rtKernelLaunch",
    ],
)
def test_a_refused_function_says_its_name(runtime: Any, capfd: pytest.CaptureFixture[str], name: str) -> None:
    assert getattr(runtime, name)() == NOT_SUPPORTED
    assert f"{name} is not simulated" in runtime.aclGetRecentErrMsg().decode()
    assert capfd.readouterr().err == f"gmmfr simulator: {name} is not simulated\n"


def test_an_operator_called_by_name_is_named(runtime: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert runtime.aclopCompileAndExecute(b"MatMul") == NOT_SUPPORTED
    assert "operator MatMul is not simulated" in runtime.aclGetRecentErrMsg().decode()
    assert "operator MatMul is not simulated" in capfd.readouterr().err


@pytest.mark.parametrize(
    "name", ["libhccl", "libacl_op_compiler", "libge_runner", "libgraph", "libacl_tdt_channel"]
)
def test_the_vendors_other_libraries_lead_to_the_simulator(name: str) -> None:
    library = ctypes.CDLL(str(SIMULATED_RUNTIME.with_name(f"{name}.so")))
    assert library.gmmfrSimThreads() > 0
