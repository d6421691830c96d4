"""Kernels of one's own on the command line: what they print, return, raise and touch, how they are named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Gmmfr = Callable[..., Any]

RIGHT_KERNEL = (
    "import reference\n\ndef kernel(operands):\n    return reference.golden(operands, 'float32').out\n"
)


@pytest.fixture
def right(tmp_path: Path) -> str:
    path = tmp_path / "right.py"
    path.write_text(RIGHT_KERNEL)
    return f"{path}:kernel"


LOUD_KERNEL = """
import ctypes
import os
import sys
import reference

print("while it loads")

def kernel(operands):
    print("from Python")
    os.write(1, b"past Python\\n")
    ctypes.CDLL(None).puts(b"from C")
    return reference.golden(operands, "float32").out
"""


@pytest.mark.parametrize("arguments", [("ab", "w0", "-a"), ("run", "w0", "-o", "loud.safetensors", "-b")])
def test_json_is_alone_on_standard_output_whatever_a_kernel_prints(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "loud.py").write_text(LOUD_KERNEL)
    command = [sys.executable, "-m", "gmmfr.cli", *arguments, "loud.py:kernel", "--json"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    json.loads(outcome.stdout)
    for words in ("while it loads", "from Python", "past Python", "from C"):
        assert words in outcome.stderr


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit(0)", "failed: RuntimeError: the kernel called sys.exit(0); expected it to return out"),
        (
            "return None",
            "failed: TypeError: the kernel returned NoneType; "
            "expected out, a float32 array of shape (2, 128)",
        ),
        ("operands.x1[0] = 0", "failed: ValueError: assignment destination is read-only"),
    ],
)
def test_a_kernel_cannot_pass_without_a_result_or_change_its_operands(
    gmmfr: Gmmfr, tmp_path: Path, body: str, reason: str
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(f"import sys\n\ndef kernel(operands):\n    {body}\n")
    outcome = gmmfr("ab", "w0", "-a", f"{path}:kernel", "--json")
    assert outcome.code == 1
    assert outcome.json["verdict"] == "FAIL"
    assert outcome.json["backends"][f"{path}:kernel"]["reason"] == reason


@pytest.mark.parametrize(
    ("out", "got"),
    [
        ("np.zeros(256, np.float32)", "float32 (256,)"),
        ("np.zeros((2, 128), np.complex64)", "complex64 (2, 128)"),
        ("np.zeros((2, 128), np.int64)", "int64 (2, 128)"),
    ],
)
def test_run_writes_no_result_of_another_shape_or_type(
    gmmfr: Gmmfr, tmp_path: Path, out: str, got: str
) -> None:
    path, result = tmp_path / "kernel.py", tmp_path / "out.safetensors"
    path.write_text(f"import numpy as np\n\ndef kernel(operands):\n    return {out}\n")
    outcome = gmmfr("run", "w0", "-b", f"{path}:kernel", "-o", result, "--json")
    assert outcome.code == 1
    assert outcome.json["reason"] == f"failed: out: expected float32 (2, 128), got {got}"
    assert not result.exists()


def test_one_kernel_under_two_spellings_is_the_same_backend(gmmfr: Gmmfr, tmp_path: Path, right: str) -> None:
    other = f"{tmp_path}/../{tmp_path.name}/right.py:kernel"
    outcome = gmmfr("ab", "w0", "-a", right, "-b", other)
    assert outcome.code == 2
    assert "each must be another one" in outcome.err


@pytest.mark.parametrize("ending", ["", ".requires_grad_()", ".to(torch.float64)"])
def test_a_kernel_may_return_a_tensor_of_torch(gmmfr: Gmmfr, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    path = tmp_path / "kernel.py"
    body = f"return torch.from_numpy(reference.golden(operands, 'float32').out){ending}"
    path.write_text(f"import reference\nimport torch\n\ndef kernel(operands):\n    {body}\n")
    outcome = gmmfr("ab", "c10", "-a", f"{path}:kernel", "--json")
    assert (outcome.code, outcome.json["verdict"]) == (0, "PASS"), outcome.err


def test_names_and_reasons_are_printed_as_they_are(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "[bold]kernel[end].py"
    path.write_text(
        RIGHT_KERNEL + "\ndef raises(operands):\n    raise RuntimeError('[/red] out of [tiles]')\n"
    )
    result = tmp_path / "out.safetensors"
    assert f"{path}:kernel ran on" in gmmfr("run", "m0", "-b", f"{path}:kernel", "-o", result).out
    for arguments in (("run", "m0", "-o", result, "-b"), ("ab", "m0", "-a")):
        outcome = gmmfr(*arguments, f"{path}:raises")
        assert outcome.code == 1
        assert "FAILED: RuntimeError: [/red] out of [tiles]" in outcome.out


def test_a_kernel_may_import_a_module_beside_it(gmmfr: Gmmfr, tmp_path: Path) -> None:
    (tmp_path / "gmmfr_test_neighbour.py").write_text("import reference\n\ncompute = reference.golden\n")
    path = tmp_path / "kernel.py"
    path.write_text(
        "from gmmfr_test_neighbour import compute\n\n\ndef kernel(operands):\n"
        "    return compute(operands, 'float32').out\n"
    )
    assert gmmfr("ab", "c10", "-a", f"{path}:kernel", "--json").json["verdict"] == "PASS"
