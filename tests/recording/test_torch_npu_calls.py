"""Calls of torch_npu's own operator, recorded in a process where torch_npu runs on the simulator."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gmmfr
from gmmfr.simulated_device import simulated_environment
from reference import golden, make_case, read_bundle

if importlib.util.find_spec("torch_npu") is None:
    pytest.skip("torch_npu is not installed", allow_module_level=True)

PROGRAM = """
import sys
import torch, torch_npu
import gmmfr
from gmmfr.torch_call import torch_arguments
from reference import make_case

calls = [torch_arguments(make_case(name), "npu") for name in sys.argv[2:]]
with gmmfr.record(sys.argv[1]) as recording:
    for arguments, keywords in calls:
        torch_npu.npu_grouped_matmul_finalize_routing(*arguments, **keywords)
print(len(recording.paths), recording.skipped)
"""


def _run(soc: str, *arguments: str) -> str:
    environment = simulated_environment(soc)
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("soc", "names"), [("Ascend910B2", ("w0", "c5")), ("Ascend950PR_9579", ("c10", "c12", "c16"))]
)
def test_calls_of_torch_npu_are_recorded_and_replayed(
    soc: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    printed = _run(soc, "-c", PROGRAM, str(tmp_path / "calls"), *names)
    assert printed.splitlines()[-1] == f"{len(names)} []"
    for path, name in zip(sorted((tmp_path / "calls").iterdir()), names, strict=True):
        saved, original = read_bundle(path), make_case(name)
        assert saved.recorded["device"] == f"simulator ({soc}), through torch_npu"
        assert np.array_equal(saved.arrays["x1"].view(np.uint8), original.arrays["x1"].view(np.uint8))
        assert np.array_equal(golden(saved).out, golden(original).out)
        report = gmmfr.replay(path, backend="simulator")
        assert report.verdict == "PASS", report.message


@pytest.mark.long
def test_record_command_records_the_torch_npu_calls_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch_npu\n"
        "from gmmfr.torch_call import torch_arguments\nfrom reference import make_case\n"
        "arguments, keywords = torch_arguments(make_case('w0'), 'npu')\n"
        "print(torch_npu.npu_grouped_matmul_finalize_routing(*arguments, **keywords)[:, 0].tolist())\n"
    )
    path = tmp_path / "call.safetensors"
    _run("Ascend910B2", "-m", "gmmfr.cli", "record", str(script), "-o", str(path), "--torch")
    assert read_bundle(path).recorded["outputs"]["out.torch_npu"][:, 0].tolist() == [-64, -224]


FAILING = """
import sys
import torch, torch_npu
import gmmfr
from gmmfr.torch_call import torch_arguments
from reference import make_case

call = make_case("w0")
call.arrays["row_index"][1] = 5
arguments, keywords = torch_arguments(call, "npu")
with gmmfr.record(sys.argv[1]) as recording:
    try:
        torch_npu.npu_grouped_matmul_finalize_routing(*arguments, **keywords).cpu()
    except RuntimeError as error:
        print("raised", type(error).__name__)
print(len(recording.paths), len(recording.failed), recording.skipped, flush=True)
import os
os._exit(0)
"""


def test_a_call_of_torch_npu_that_fails_is_saved_with_its_error(tmp_path: Path) -> None:
    printed = _run("Ascend910B2", "-c", FAILING, str(tmp_path / "calls"))
    assert printed.splitlines()[-2:] == ["raised RuntimeError", "1 1 []"]
    saved = read_bundle(tmp_path / "calls" / "call-0001.safetensors")
    assert saved.arrays["row_index"].tolist()[1] == 5
    assert saved.batch == 2
    assert saved.recorded["error"].startswith("RuntimeError: ")
