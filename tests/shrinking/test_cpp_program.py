"""The C++ program of a call compiles against the vendor's headers and checks the operator by itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aclnn_bindings.headers import LIBRARY_DIRECTORY, include_directory
from gmmfr.cli_support import UsageFailure
from gmmfr.shrinking.cpp_program import write_program
from reference import make_case

Gmmfr = Callable[..., Any]


def _compile(source: Path) -> Path:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    assert compiler, "no C++ compiler: install g++ or set CXX"
    program = source.with_suffix("")
    command = [*compiler.split(), "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{include_directory()}"]
    command += [
        str(source),
        "-o",
        str(program),
        f"-L{LIBRARY_DIRECTORY}",
        "-lopapi",
        "-lnnopbase",
        "-lascendcl",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def _run(program: Path, soc: str) -> tuple[int, str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY_DIRECTORY), "GMMFR_SIM_SOC": soc}
    done = subprocess.run([program], capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", ["c5", "c10", "c12", "c16", "c17"])
def test_program_passes_on_the_simulator(name: str, tmp_path: Path) -> None:
    call = make_case(name)
    write_program(tmp_path / "call.cpp", call, "a title\nof two lines", "the call")
    assert (tmp_path / "call.cpp").read_text().startswith("// a title of two lines\n//\n// the call\n")
    code, printed = _run(_compile(tmp_path / "call.cpp"), call.problem.platform_row.default_soc)
    if name == "c17":  # m = 0: the operator leaves out as it was, which is NaN here
        assert (code, printed.splitlines()[-1]) == (1, "FAIL: 256 of 256 elements differ")
        return
    assert code == 0, printed
    assert printed == f"PASS: 0 of {call.problem.spec('out').size} elements differ\n"


def test_program_finds_a_wrong_element_and_says_where(tmp_path: Path) -> None:
    source = tmp_path / "call.cpp"
    write_program(source, make_case("w0"), "title", "call")
    text = source.read_text()
    assert "constexpr float kExpected[] = {\n-64.0f, " in text
    source.write_text(text.replace("kExpected[] = {\n-64.0f, ", "kExpected[] = {\n-65.0f, "))
    code, printed = _run(_compile(source), "Ascend910B2")
    assert code == 1
    assert re.search(
        r"^row 0, column 0: got -64, expected -65, allowed difference [\d.e-]+$", printed, re.MULTILINE
    )
    assert printed.endswith("FAIL: 1 of 256 elements differ\n")


def test_program_on_the_wrong_device_names_the_status(tmp_path: Path) -> None:
    write_program(tmp_path / "call.cpp", make_case("m0"), "title", "call")
    code, printed = _run(_compile(tmp_path / "call.cpp"), "Ascend910B2")
    assert code == 2
    assert printed.startswith("phase 1 failed with 161001: ")


def test_large_calls_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageFailure, match=r"a program holds at most 1,048,576 bytes of operands, the call has"
    ):
        write_program(tmp_path / "call.cpp", make_case("c7"), "title", "call")
    assert not (tmp_path / "call.cpp").exists()


def test_shrink_writes_the_program(gmmfr: Gmmfr, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import reference\ndef kernel(o): return -reference.golden(o, 'float32').out\n")
    out = tmp_path / "small.safetensors"
    outcome = gmmfr("shrink", "c5", "-b", f"{kernel}:kernel", "-o", out, "--cpp", "--json")
    assert outcome.code == 0
    program = Path(outcome.json["program"])
    assert program == tmp_path / "small.cpp"
    assert _run(_compile(program), "Ascend910B2")[0] == 0
