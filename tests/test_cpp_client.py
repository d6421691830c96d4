"""The C side as a CANN user meets it: headers, link names, and programs that make the raw two-phase call."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
LIBRARIES = ROOT / "aclnn_bindings" / "lib"
CLIENTS = ROOT / "tests" / "client"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h"))


def compiler(variable: str, *names: str) -> list[str]:
    """The compiler of the environment variable, else the first of names that exists."""
    if os.environ.get(variable):
        return shlex.split(os.environ[variable])
    for name in names:
        if shutil.which(name):
            return [name]
    raise AssertionError(f"no compiler: none of {names} found; install one or set {variable}")


def run(command: list[str], **environment: str) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def libraries() -> Path:
    """The folder of the built simulator."""
    assert (LIBRARIES / "libascendcl.so").exists(), f"{LIBRARIES} is not built: run python build.py"
    return LIBRARIES


def build_client(name: str, folder: Path, libraries: Path) -> Path:
    """Compiles a client as its Makefile on CANN would, linking the vendor's library names."""
    program = folder / name
    command = [*compiler("CXX", "c++", "g++", "clang++"), "-std=c++17", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{INCLUDE}", str(CLIENTS / f"{name}.cpp"), "-o", str(program), f"-L{libraries}"]
    run([*command, "-lopapi", "-lnnopbase", "-lascendcl"])
    return program


@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone_in_c(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text(f'#include "{header}"\n#include "{header}"\nint used_{len(header)};\n')
    command = [*compiler("CC", "cc", "gcc", "clang"), "-std=c11", *STRICT, f"-I{INCLUDE}", "-fsyntax-only"]
    run([*command, str(source)])


@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone_in_cpp(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "{header}"\n#include "{header}"\nint used_{len(header)};\n')
    command = [
        *compiler("CXX", "c++", "g++", "clang++"),
        "-std=c++17",
        *STRICT,
        f"-I{INCLUDE}",
        "-fsyntax-only",
    ]
    run([*command, str(source)])


@pytest.mark.parametrize(
    ("name", "soc", "numbers"),
    [
        ("mxfp8_client", "Ascend950PR_9579", ["64", "96", "160", "192", "288"]),
        ("w4a8_client", "Ascend910B2", ["-64 / -224", "-64 / -219", "-59 / -224"]),
        ("w4a8_client", "Ascend910_9391", ["-64 / -224", "-64 / -219", "-59 / -224"]),
    ],
)
def test_client_computes_the_known_numbers(
    name: str, soc: str, numbers: list[str], tmp_path: Path, libraries: Path
) -> None:
    program = build_client(name, tmp_path, libraries)
    output = run([str(program)], LD_LIBRARY_PATH=str(libraries), GMMFR_SIM_SOC=soc)
    lines = output.splitlines()
    assert lines[-1] == "PASS"
    assert [line.split(": ")[1].split(",")[0] for line in lines[:-1]] == numbers


def test_client_on_the_other_family_fails_with_the_vendors_status(tmp_path: Path, libraries: Path) -> None:
    program = build_client("mxfp8_client", tmp_path, libraries)
    done = subprocess.run(
        [str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries), "GMMFR_SIM_SOC": "Ascend910B2"},
    )
    assert done.returncode != 0
    # bias is required on Atlas A2/A3, and that comes first
    assert "ERROR: 161001" in done.stdout
    assert "bias" in done.stdout
