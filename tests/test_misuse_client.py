"""Mistakes of a caller, made by a C++ program: what the simulator says, with the checking device on and off.

Also failures on order: each function of the two-phase call made to fail, and what a plain C++ client sees.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ROOT / "aclnn_bindings" / "lib"
CLIENTS = ROOT / "tests" / "client"

#: Mistake: status with checks on, status with checks off, words of the message with checks on.
MISTAKES = {
    "executor run twice": (561000, 561000, "was destroyed or used up before"),
    "executor destroyed twice": (561000, 561000, "was destroyed or used up before"),
    "cached executor made repeatable": (561000, 561000, "phase-1 cache cannot be repeated"),
    "tensor destroyed twice": (161002, 161002, "was destroyed or used up before"),
    "tensor destroyed before phase 1": (161002, 161002, "logit: aclTensor"),
    "tensor destroyed between the phases": (561000, 561000, "out: its aclTensor was destroyed between"),
    "int array destroyed twice": (161002, 161002, "aclIntArray"),
    "stream destroyed twice": (107017, 107017, "stream"),
    "event given as stream": (107017, 107017, "it is a handle of kind event"),
    "workspace missing": (161001, 161001, "workspace is NULL"),
    "workspace too small": (161002, 161002, "workspaceSize: expected at least"),
    "host memory as x1": (507015, 507015, "lies in no live allocation"),
    "memory freed twice": (107000, 107000, "was freed by aclrtFree"),
    "input freed before the launch": (507015, 507015, "x2 with shape (2, 64, 32)"),
    "misaligned address": (107008, 0, "pertokenScale: data address"),
    "view beyond its storage": (507015, 0, "its storage (2, 64, 31) has 3968"),
    "allocation with the wrong element size": (507015, 507015, "pass the end of their allocation"),
    "copy past the end": (107000, 107000, "pass the end of their allocation"),
    "device address as host address": (107000, 107000, "is a device address"),
    "result copied before synchronise": (107000, 0, "may happen while out of"),
    "two streams without an event": (107000, 0, "nothing orders the two"),
    "two streams with an event": (0, 0, ""),
    "row index past out": (507035, 507035, "rowIndex[3] = 4: expected 0 to 3"),
    "row index negative": (507035, 507035, "rowIndex[1] = -1: expected 0 to 3"),
    "counts beyond m": (507035, 507035, "groupList[1] = 4: expected at most m = 8 rows in all, got 9"),
    "count negative": (507035, 507035, "groupList[0] = -1"),
    "totals decreasing": (507035, 507035, "groupList[1] = 3: expected running totals"),
    "thread without a device": (107002, 107002, ""),
    "use after fork": (100001, 100001, ""),
    "a right call after all of them": (0, 0, ""),
    "finalise with live memory": (148051, 0, "1 objects are still alive:;  device memory"),
    "finalise twice": (100037, 100037, "finalised already"),
}
#: These end with checks on only, or in a way that depends on the moment.
CHECKED_ONLY = {
    "memory freed under queued work": (207002, "may still write it: synchronise the stream first"),
    "new address for a tensor of another call": (161002, ""),
    "write past the end": (507053, "bytes after the end of the allocation"),
}

FAULTS = {
    "aclInit": 100000,
    "aclrtSetDevice": 507033,
    "aclrtCreateStream": 207008,
    "aclrtMalloc": 207001,
    "aclrtMemcpy": 507899,
    "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize": 561103,
    "aclnnGroupedMatmulFinalizeRoutingV3": 361001,
    "aclrtSynchronizeStream": 507010,
}


def build(name: str, folder: Path) -> Path:
    """Compiles a client and links the vendor's library names."""
    assert (LIBRARIES / "libascendcl.so").exists(), f"{LIBRARIES} is not built: run python build.py"
    compiler = shlex.split(os.environ.get("CXX") or shutil.which("c++") or "g++")
    program = folder / name
    command = [*compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    command += [str(CLIENTS / f"{name}.cpp"), "-o", str(program), f"-L{LIBRARIES}", "-pthread"]
    command += ["-lopapi", "-lnnopbase", "-lascendcl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a client on the Ascend 950 simulator."""
    given = {"LD_LIBRARY_PATH": str(LIBRARIES), "GMMFR_SIM_SOC": "Ascend950PR_9579", **environment}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GMMFR_SIM_")}
    command = [str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**kept, **given})


def statuses(output: str) -> dict[str, tuple[int, str]]:
    """The lines of the misuse client."""
    rows = [line.split("|", 2) for line in output.splitlines()]
    return {name: (int(status), message) for name, status, message in rows}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both programs, built."""
    folder = tmp_path_factory.mktemp("clients")
    build("misuse_client", folder)
    build("mxfp8_client", folder)
    return folder


@pytest.fixture(scope="module")
def checked(clients: Path) -> dict[str, tuple[int, str]]:
    """What each mistake gets from the checking device."""
    done = run(clients / "misuse_client", "guards", GMMFR_SIM_CHECK="1")
    assert done.returncode == 0, done.stdout + done.stderr
    return statuses(done.stdout)


@pytest.fixture(scope="module")
def unchecked(clients: Path) -> dict[str, tuple[int, str]]:
    """What each mistake gets with checks off."""
    done = run(clients / "misuse_client")
    assert done.returncode == 0, done.stdout + done.stderr
    return statuses(done.stdout)


def test_every_mistake_has_its_expectation(checked: dict[str, tuple[int, str]]) -> None:
    assert set(checked) == set(MISTAKES) | set(CHECKED_ONLY)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_found_by_the_checking_device(mistake: str, checked: dict[str, tuple[int, str]]) -> None:
    status, message = checked[mistake]
    assert status == MISTAKES[mistake][0], message
    assert MISTAKES[mistake][2] in message


@pytest.mark.parametrize("mistake", CHECKED_ONLY)
def test_mistake_that_only_the_checking_device_finds(
    mistake: str, checked: dict[str, tuple[int, str]]
) -> None:
    status, message = checked[mistake]
    assert status == CHECKED_ONLY[mistake][0], message
    assert CHECKED_ONLY[mistake][1] in message


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_without_checks_ends_in_a_status(mistake: str, unchecked: dict[str, tuple[int, str]]) -> None:
    status, message = unchecked[mistake]
    assert status == MISTAKES[mistake][1], message


@pytest.mark.parametrize("function", FAULTS)
def test_failure_on_order_reaches_the_client(function: str, clients: Path) -> None:
    code = FAULTS[function]
    done = run(clients / "mxfp8_client", GMMFR_SIM_FAULT=f"{function}:1:{code}")
    assert done.returncode not in (0, -6, -11), done.stdout + done.stderr
    assert f"ERROR: {code}" in done.stdout


def test_failure_on_order_counts_the_uses(clients: Path) -> None:
    program = clients / "mxfp8_client"
    function = "aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize"
    assert "phase 1 failed. ERROR: 561103" in run(program, GMMFR_SIM_FAULT=f"{function}:5:561103").stdout
    assert run(program, GMMFR_SIM_FAULT=f"{function}:6:561103").stdout.endswith("PASS\n")


@pytest.mark.parametrize("seed", ["1", "2"])
def test_shuffled_adds_keep_exact_sums(seed: str, clients: Path) -> None:
    assert run(clients / "mxfp8_client", GMMFR_SIM_SHUFFLE=seed).stdout.endswith("PASS\n")
