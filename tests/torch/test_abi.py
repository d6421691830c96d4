"""The vendor's client and the binding make the same call, and every argument arrives as it was asked for.

The wrong libraries show that the comparison would see a difference.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aclnn_bindings.headers import LIBRARY_DIRECTORY

pytestmark = pytest.mark.needs_torch_npu

A2, A950 = "Ascend910B2", "Ascend950PR_9579"
SHIM = Path(__file__).parent / "shims" / "wrong_phase_one.c"
CASES = {
    A950: ("m0", "c10", "c11", "c12", "c15", "c16", "c18_mxfp8"),
    A2: ("w0", "c4", "c5", "c18_w4a8", "w4a8_doc"),
}
Run = Callable[..., Any]


def build_shim(folder: Path, *definitions: str) -> str:
    """A libopapi.so in ``folder`` whose phase 1 stands before the simulator's."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *definitions, str(SHIM)]
    command += ["-o", str(folder / "libopapi.so"), f"-L{LIBRARY_DIRECTORY}"]
    command += ["-Wl,--no-as-needed", "-l:libascendcl.so", "-ldl"]
    subprocess.run(command, check=True)
    return str(folder)


# With TASK_QUEUE_ENABLE=2 another thread calls phase 1.
@pytest.mark.parametrize(("soc", "task_queue"), [(A950, 1), (A2, 0)])
def test_both_clients_pass_what_was_asked_for(simulated: Run, soc: str, task_queue: int) -> None:
    assert simulated("abi_probe.py", *CASES[soc], soc=soc, task_queue=task_queue) == []


@pytest.mark.parametrize(("soc", "case"), [(A950, "c18_mxfp8"), (A2, "c18_w4a8")])
def test_the_probe_sees_a_weight_of_type_double(
    run_simulated: Run, tmp_path: Path, soc: str, case: str
) -> None:
    outcome = run_simulated("abi_probe.py", case, soc=soc, first=build_shim(tmp_path, "-DWEIGHT_IS_DOUBLE"))
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(outcome.stdout.splitlines()[-1])
    assert len(found) == 2
    for client, line in zip(("torch_npu", "binding"), found, strict=True):
        assert line.startswith(f"{case}: {client}: sharedInputWeight: asked for 0.33333")


@pytest.mark.parametrize(("soc", "case"), [(A950, "c18_mxfp8"), (A2, "c18_w4a8")])
def test_the_probe_sees_a_missing_argument(run_simulated: Run, tmp_path: Path, soc: str, case: str) -> None:
    outcome = run_simulated("abi_probe.py", case, soc=soc, first=build_shim(tmp_path, "-DNO_OFFSET"))
    assert outcome.returncode != 0
    assert "is no aclTensor, it is a handle of kind aclIntArray" in outcome.stderr


def test_a_library_with_the_right_prototype_in_between_changes_nothing(
    run_simulated: Run, tmp_path: Path
) -> None:
    outcome = run_simulated("abi_probe.py", "c18_mxfp8", soc=A950, first=build_shim(tmp_path))
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout.splitlines()[-1]) == []
