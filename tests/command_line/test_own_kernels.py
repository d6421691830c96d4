"""Kernels of one's own on the command line: what they print, return, raise and touch, how they are named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmmfr.backends import find_backend
from reference import Operands, make_case

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
        (
            "return np.zeros((2, 128), [('x', 'f4')])",
            "failed: TypeError: the kernel returned an array of dtype [('x', '<f4')]; expected float32",
        ),
        ("operands.x1[0] = 0", "failed: ValueError: assignment destination is read-only"),
    ],
)
def test_a_kernel_cannot_pass_without_a_result_or_change_its_operands(
    gmmfr: Gmmfr, tmp_path: Path, body: str, reason: str
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(f"import sys\nimport numpy as np\n\ndef kernel(operands):\n    {body}\n")
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
        ("np.zeros((2, 128), ml_dtypes.bfloat16)", "bfloat16 (2, 128)"),
        ("np.float32(1)", "float32 ()"),
        ("np.zeros((0, 128), '>f4')", "float32 (0, 128)"),
    ],
)
def test_run_writes_no_result_of_another_shape_or_type(
    gmmfr: Gmmfr, tmp_path: Path, out: str, got: str
) -> None:
    path, result = tmp_path / "kernel.py", tmp_path / "out.safetensors"
    path.write_text(f"import ml_dtypes\nimport numpy as np\n\ndef kernel(operands):\n    return {out}\n")
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


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os.abort()", "the kernel was ended by SIGABRT"),
        ("ctypes.string_at(0)", "the kernel was ended by SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "the kernel was ended by SIGKILL"),
        ("os._exit(0)", "the kernel ended its process with exit code 0"),
    ],
)
def test_a_kernel_that_crashes_fails_and_names_the_signal(
    gmmfr: Gmmfr, tmp_path: Path, right: str, body: str, reason: str
) -> None:
    path = tmp_path / "crash.py"
    path.write_text(f"import ctypes\nimport os\n\ndef kernel(operands):\n    {body}\n")
    outcome = gmmfr("ab", "c10", "-a", f"{path}:kernel", "-b", right, "--json")
    assert (outcome.code, outcome.json["verdict"]) == (1, "FAIL")
    backends = outcome.json["backends"]
    assert backends[f"{path}:kernel"]["reason"] == f"failed: {reason}"
    assert backends[right]["ran"], "the next kernel runs in a new process"


def test_a_traceback_begins_in_the_kernels_file(gmmfr: Gmmfr, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text("def inner():\n    raise OSError('no tile')\n\ndef kernel(operands):\n    inner()\n")
    lines = gmmfr("ab", "w0", "-a", f"{path}:kernel").err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{path}", line 5, in kernel'
    assert lines[-1] == "OSError: no tile"


@pytest.mark.parametrize("place", ["", "    "])
def test_a_kernel_whose_import_is_missing_is_not_run(gmmfr: Gmmfr, tmp_path: Path, place: str) -> None:
    path = tmp_path / "kernel.py"
    missing = "import gmmfr_no_such_package.part\n"
    path.write_text(f"def kernel(operands):\n    pass\n{place}{missing}")
    outcome = gmmfr("ab", "w0", "-a", f"{path}:kernel", "--json")
    assert (outcome.code, outcome.json["verdict"]) == (3, "NOT RUN")
    reason = "the kernel imports gmmfr_no_such_package, which is not installed"
    assert outcome.json["backends"][f"{path}:kernel"]["reason"] == reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def kernel(:\n", "SyntaxError: invalid syntax (kernel.py, line 1)"),
        ("\n1 / 0\n", "ZeroDivisionError: division by zero (line 2)"),
        ("from reference import nothing\n", "ImportError: cannot import name 'nothing'"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0 (line 2)"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_bad_input(
    gmmfr: Gmmfr, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(text)
    outcome = gmmfr("ab", "w0", "-a", f"{path}:kernel")
    assert outcome.code == 2
    assert f"gmmfr ab: backend {path}:kernel: {path} cannot be loaded: {said}" in outcome.err
    assert "importlib" not in outcome.err


def test_a_kernel_gets_operands_with_the_strides_of_the_call(gmmfr: Gmmfr, tmp_path: Path) -> None:
    operands = make_case("c10")
    shape = operands.arrays["x2"].shape
    backwards = np.ascontiguousarray(operands.arrays["x2"].swapaxes(1, 2)).swapaxes(1, 2)
    gaps = np.zeros((operands.problem.m, 3), operands.arrays["row_index"].dtype)
    gaps[:, 1] = operands.arrays["row_index"]
    arrays = {**operands.arrays, "x2": backwards, "row_index": gaps[:, 1], "x1": operands.arrays["x1"][::-1]}
    path = tmp_path / "kernel.py"
    path.write_text(
        "import numpy as np\n\ndef kernel(operands):\n"
        "    a = operands.arrays\n    assert not any(x.flags.writeable for x in a.values())\n"
        "    names = ('x2', 'row_index', 'x1')\n"
        "    return np.array([a[n].strides[0] for n in names] + [a[n].astype(float).sum() for n in names])\n"
    )
    sent = Operands(operands.problem, arrays)
    out = find_backend(f"{path}:kernel", operands.problem).run(sent).out
    names = ("x2", "row_index", "x1")
    expected = [arrays[n].strides[0] for n in names] + [arrays[n].astype(float).sum() for n in names]
    assert shape == backwards.shape
    assert out.tolist() == expected
