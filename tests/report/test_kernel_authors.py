"""What kernel authors get: assert_matches_golden and the pytest plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gmmfr.testing import assert_matches_golden
from reference import golden, make_case


def test_right_output_passes() -> None:
    call = make_case("c10")
    comparison = assert_matches_golden(golden(call, "float32").out, call)
    assert comparison.verdict == "PASS"
    assert_matches_golden(golden(call, "float32").out, "c10")


def test_message_says_how_many_where_and_why() -> None:
    out = np.tile(np.float32([[-1408, 1856], [-2288, 2976]]), 64)
    with pytest.raises(AssertionError) as failure:
        assert_matches_golden(out, make_case("w1"), err_msg="my kernel, tile 32")
    message = str(failure.value)
    for part in (
        "out does not match the golden",
        "my kernel, tile 32",
        "Mismatched elements: 256 / 256 (100.000%)",
        "Criterion: |a-b| ≤ 0 (all sums are exact in float32)",
        "Max absolute difference: 2064",
        "rows (tokens): 2 of 2 differ: 0-1",
        "2976 (out), 912 (golden), inf x allowed; rows of x1 [1, 2], experts [0, 1]",
        "4-bit values read high nibble first (of x2): explains every element",
    ):
        assert part in message, part


def test_message_for_wrong_shape_and_for_nan() -> None:
    with pytest.raises(AssertionError, match=r"out shape: expected \(2, 128\), got \(4, 128\)"):
        assert_matches_golden(np.zeros((4, 128), np.float32), "w0")
    out = golden(make_case("w1"), "float32").out
    out[0, 0] = np.nan
    with pytest.raises(AssertionError, match="NaN or infinite on either side: 1"):
        assert_matches_golden(out, "w1", explain=False)


TESTS = """
import pytest
from gmmfr.testing import assert_matches_golden

@pytest.mark.gmmfr_cases("w1", "c8")
def test_backend(gmmfr_operands, gmmfr_backend):
    assert_matches_golden(gmmfr_backend(gmmfr_operands), gmmfr_operands)

def test_case(gmmfr_case):
    assert gmmfr_case("w0").problem.m == 4

@pytest.mark.npu
def test_on_a_device():
    raise AssertionError("runs on a device only")
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tests above in a process of its own, with the plugin."""
    (folder / "test_kernel.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", *options]
    root = str(Path(__file__).parents[2])
    environment = {"PYTHONPATH": root, "PATH": "/usr/bin:/bin", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_plugin_runs_the_backend_asked_for(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--gmmfr-backend", "golden")
    assert "3 passed, 1 skipped" in done.stdout, done.stdout
    assert done.returncode == 0
    assert "gmmfr: NOT RUN" in done.stdout
    assert "npu (1 test): " in done.stdout


def test_plugin_fails_where_the_backend_asked_for_never_ran(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--gmmfr-backend", "golden", "--gmmfr-backend", "aclnn")
    assert "3 passed, 3 skipped" in done.stdout, done.stdout
    assert "aclnn (2 tests): " in done.stdout
    assert done.returncode == 1


def test_plugin_reports_a_wrong_kernel(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import reference\ndef run(o):\n    return reference.golden(o, 'float32').out + 1\n"
    )
    done = run_pytest(tmp_path, "--gmmfr-backend", f"{tmp_path}/mine.py:run")
    assert done.returncode == 1
    assert "added to what out held before (it held 1 everywhere)" in done.stdout
